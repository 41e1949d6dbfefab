# weights.sh - weights that are trained to be quantized or pruned: the same
# numbers on any mesh and after a stop, while bits fall and weights go; what is
# evaluated, exported and written text with is what was trained.
. "${srcdir:-.}/tests/cli/lib.sh"

four="--set batch.groups=4"
stop="--set job.steps=4 --set schedule.total=10"
bits="--set weights.quantize=symmetric --set weights.start_bits=6"
bits="$bits --set weights.bits=3 --set weights.period=2 --set weights.group=16"
prune="--set weights.prune=2:4 --set weights.prune_from=5"
run exact $four
for what in "$bits" "$prune" "$bits $prune" \
    "--set weights.quantize=ternary --set weights.quantize_from=6 --set weights.group=16"; do
    rm -rf one mesh stopped
    run one $four $what --executor serial
    other one exact
    run mesh $four $what --set mesh.data=4 --set zero.stage=3 \
        --set offload.optimizer=cpu
    same one mesh
    run stopped $four $what $stop
    run stopped $four $what --set mesh.data=2 --set zero.stage=1 --resume
    same one stopped

    # The folder that others load is the model that was trained: in fp32 its loss
    # is the same to the last digit, though its job knows nothing of weights.
    was=$(loss_of one)
    "$dsflow" checkpoint export one exported >log 2>&1 ||
        fault "export: $(cat log)"
    sed -e '/^\[model\]/,/^\[/{/^\[/!d}' -e 's/^\[model\]/&\ninit = "exported"/' \
        one/job.toml >loaded.toml
    sed -i '/^\[weights\]/,/^$/d' loaded.toml
    is=$(loss_of loaded.toml --step 0 --set job.output=none)
    [ "$was" = "$is" ] ||
        fault "$what: the loss is $was, and $is of what was exported"
    "$dsflow" generate one --temperature 0 --tokens 20 >text-of-run 2>log &&
        "$dsflow" generate exported --temperature 0 --tokens 20 >text 2>log ||
        fault "generate: $(cat log)"
    cmp -s text-of-run text || fault "$what: the exported model writes something else"
    rm -rf exported
done
finish
