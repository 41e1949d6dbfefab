/* test_ds_keys.c - the table of DeepSpeed's keys has all that there are. */
#include "import/ds_keys.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

/* The keys that DeepSpeed 0.19 reads, section by section: its config.py and
 * constants.py, and the fields of its models of sections, with the names that
 * they have besides. */
static const struct {
    const char *section, *keys;
} deepspeed[] = {
    { "", "train_batch_size train_micro_batch_size_per_gpu "
          "gradient_accumulation_steps managed_gradient_accumulation "
          "prescale_gradients gradient_predivide_factor "
          "gradient_allreduce_op communication_data_type "
          "seq_parallel_communication_data_type gradient_clipping "
          "dataloader_drop_last sparse_gradients steps_per_print "
          "dump_state log_level memory_breakdown vocabulary_size "
          "graph_harvesting disable_allgather wall_clock_breakdown "
          "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer "
          "sequence_parallel_size use_data_before_expert_parallelism" },
    { "data_types", "grad_accum_dtype param_dtype buffer_dtype" },
    { "fp16", "enabled auto_cast fp16_master_weights_and_grads loss_scale "
              "initial_scale_power loss_scale_window hysteresis "
              "consecutive_hysteresis min_loss_scale" },
    { "bf16", "enabled immediate_grad_update check_grad_overflow "
              "bf16_master_weights_and_grads bf16_optimizer_states" },
    { "bfloat16", "enabled immediate_grad_update check_grad_overflow "
                  "bf16_master_weights_and_grads bf16_optimizer_states" },
    { "amp", "enabled opt_level" },
    { "torch_autocast", "enabled dtype lower_precision_safe_modules" },
    { "optimizer", "type legacy_fusion" },
    { "optimizer.params",
      "lr betas eps weight_decay bias_correction torch_adam "
      "adam_w_mode max_coeff min_coeff momentum max_grad_norm "
      "freeze_step comm_backend_name cuda_aware var_freeze_step "
      "var_update_scaler local_step_scaler local_step_clipper "
      "coeff_beta factor_max factor_min factor_threshold "
      "set_grad_none fp32_optimizer_states amsgrad eps_inside_sqrt" },
    { "scheduler", "type" },
    { "scheduler.params",
      "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "
      "last_batch_iteration total_num_steps warmup_min_ratio "
      "cos_min_ratio lr_range_test_min_lr lr_range_test_step_size "
      "lr_range_test_step_rate lr_range_test_staircase cycle_min_lr "
      "cycle_max_lr decay_lr_rate cycle_first_step_size "
      "cycle_second_step_size cycle_first_stair_count "
      "cycle_second_stair_count decay_step_size cycle_momentum "
      "cycle_min_mom cycle_max_mom decay_mom_rate" },
    { "zero_optimization",
      "stage contiguous_gradients reduce_scatter reduce_bucket_size "
      "use_multi_rank_bucket_allreduce allgather_partitions "
      "allgather_bucket_size overlap_comm round_robin_gradients "
      "legacy_stage1 ignore_unused_parameters "
      "load_from_fp32_weights elastic_checkpoint sub_group_size "
      "stage3_prefetch_bucket_size prefetch_bucket_size "
      "stage3_param_persistence_threshold "
      "param_persistence_threshold "
      "stage3_model_persistence_threshold "
      "model_persistence_threshold stage3_max_live_parameters "
      "max_live_parameters stage3_max_reuse_distance "
      "max_reuse_distance stage3_module_granularity_threshold "
      "module_granularity_threshold "
      "stage3_use_all_reduce_for_fetch_params "
      "use_all_reduce_for_fetch_params stage3_allgather_sequential "
      "allgather_sequential "
      "stage3_gather_16bit_weights_on_model_save "
      "gather_16bit_weights_on_model_save "
      "stage3_gather_fp16_weights_on_model_save "
      "log_trace_cache_warnings enable_sanity_checks "
      "override_module_apply memory_efficient_linear "
      "zero_quantized_weights zero_quantized_nontrainable_weights "
      "zero_quantized_gradients zero_hpz_partition_size "
      "zeropp_loco_param.err_beta zeropp_loco_param.reset_T "
      "mics_shard_size "
      "mics_hierarchical_params_gather cpu_offload "
      "cpu_offload_param cpu_offload_use_pin_memory "
      "pipeline_loading_checkpoint "
      "save_muon_momentum_buffer_in_memory zenflow" },
    { "zero_optimization.leaf_module", "classes names name_suffixes" },
    { "zero_optimization.offload_optimizer",
      "device nvme_path pin_memory buffer_count fast_init ratio "
      "pipeline_read pipeline_write super_offload "
      "cpuadam_cores_perc" },
    { "zero_optimization.offload_param",
      "device nvme_path pin_memory buffer_count buffer_size "
      "max_in_cpu" },
    { "aio", "block_size queue_depth intra_op_parallelism thread_count "
             "single_submit overlap_events use_gds" },
    { "activation_checkpointing",
      "partition_activations contiguous_memory_optimization "
      "number_checkpoints cpu_checkpointing "
      "synchronize_checkpoint_boundary profile" },
    { "pipeline", "stages partition seed_layers activation_checkpoint_interval "
                  "pipe_partitioned grad_partitioned use_reentrant" },
    { "tensor_parallel", "autotp_size tp_overlap_comm preset_model "
                         "partition_config.layer_specs "
                         "partition_config.use_default_specs dtype "
                         "injection_policy_tuple keep_module_on_host "
                         "replace_with_kernel_inject kernel_inject tp.tp_size "
                         "tp.tp_grain_size tensor_parallel.tp_size" },
    { "expert_parallel",
      "enabled autoep_size expert_tensor_parallel_size "
      "validate_folding_routing preset_model moe_layer_pattern "
      "expert_pattern router_pattern use_grouped_mm route_norm "
      "route_scale score_func score_apply combine_impl "
      "num_expert_groups num_limited_groups top_k "
      "load_balance_coeff routed_scaling_factor" },
    { "compression_training",
      "layer_reduction.enabled layer_reduction.keep_number_layer "
      "layer_reduction.module_name_prefix "
      "layer_reduction.teacher_layer "
      "layer_reduction.other_module_name "
      "weight_quantization.different_groups.a.params.start_bits "
      "weight_quantization.different_groups.a.params.target_bits "
      "weight_quantization.different_groups.a.params.quantization_period "
      "weight_quantization.different_groups.a.modules "
      "weight_quantization.different_groups.a.related_modules "
      "activation_quantization.different_groups.a.params.bits "
      "sparse_pruning.different_groups.a.params.dense_ratio "
      "row_pruning.different_groups.a.params.dense_ratio "
      "head_pruning.different_groups.a.params.dense_ratio "
      "channel_pruning.different_groups.a.params.dense_ratio" },
    { "compression_training.weight_quantization.shared_parameters",
      "enabled quantizer_kernel schedule_offset quantize_groups "
      "quantize_verbose quantization_type quantize_weight_in_forward rounding "
      "fp16_mixed_quantize.enabled fp16_mixed_quantize.quantize_change_ratio" },
    { "compression_training.activation_quantization.shared_parameters",
      "enabled quantization_type range_calibration schedule_offset" },
    { "compression_training.sparse_pruning.shared_parameters",
      "enabled method schedule_offset schedule_offset_end "
      "schedule_offset_stride block_pattern dense_ratio excluded_modules" },
    { "compression_training.row_pruning.shared_parameters",
      "enabled method schedule_offset" },
    { "compression_training.head_pruning.shared_parameters",
      "enabled method num_heads schedule_offset" },
    { "compression_training.channel_pruning.shared_parameters",
      "enabled method schedule_offset" },
    { "quantize_training", "eigenvalue" },
    { "eigenvalue", "enabled verbose max_iter tol stability "
                    "gas_boundary_resolution layer_name layer_num" },
    { "weight_quantization", "post_init_quant quantized_initialization" },
    { "curriculum_learning",
      "enabled curriculum_type min_difficulty max_difficulty "
      "schedule_type schedule_config" },
    { "data_efficiency",
      "enabled seed data_sampling.enabled data_sampling.num_epochs "
      "data_sampling.num_workers data_sampling.pin_memory "
      "data_sampling.curriculum_learning "
      "data_sampling.dynamic_batching data_routing.random_ltd" },
    { "progressive_layer_drop", "enabled theta gamma" },
    { "sparse_attention",
      "mode block different_layout_per_head num_local_blocks "
      "num_global_blocks attention horizontal_global_attention "
      "num_different_global_patterns num_random_blocks "
      "local_window_blocks global_block_indices "
      "global_block_end_indices num_sliding_window_blocks" },
    { "checkpoint",
      "tag_validation load_universal use_node_local_storage "
      "parallel_write.pipeline_stage writer.type writer.decoupled "
      "writer.data_parallel writer.io_buffer_size "
      "writer.io_buffer_double writer.show_statistics "
      "writer.io_multiplier checkpoint_serialization" },
    { "nebula", "enabled persistent_storage_path persistent_time_interval "
                "num_of_version_in_retention enable_nebula_load "
                "nebula_load_path" },
    { "datastates_ckpt", "host_cache_size" },
    { "compile", "deepcompile free_activation free_activation_threshold "
                 "offload_activation offload_activation_pin_memory "
                 "offload_opt_states double_buffer symmetric_memory debug_log "
                 "offload_parameters sync_before_reduce sync_after_reduce "
                 "sync_before_allgather sync_after_allgather "
                 "keep_int_input_tensors keep_all_input_tensors passes" },
    { "timers", "throughput.enabled throughput.synchronized" },
    { "flops_profiler",
      "enabled recompute_fwd_factor profile_step module_depth "
      "top_modules detailed output_file" },
    { "comms_logger", "enabled verbose prof_all debug prof_ops" },
    { "tensorboard", "enabled output_path job_name" },
    { "csv_monitor", "enabled output_path job_name" },
    { "wandb", "enabled group team project" },
    { "comet", "enabled samples_log_interval project workspace api_key "
               "experiment_name experiment_key online mode" },
    { "autotuning",
      "enabled fast results_dir exps_dir overwrite "
      "start_profile_step end_profile_step metric tuner_type "
      "tuner_early_stopping tuner_num_trials arg_mappings mp_size "
      "min_train_batch_size max_train_batch_size "
      "min_train_micro_batch_size_per_gpu "
      "max_train_micro_batch_size_per_gpu "
      "num_tuning_micro_batch_sizes model_info" },
    { "elasticity", "enabled max_train_batch_size micro_batch_sizes min_gpus "
                    "max_gpus min_time prefer_larger_batch "
                    "ignore_non_elastic_batch_info version num_gpus_per_node "
                    "model_parallel_size" },
    { "hybrid_engine", "enabled max_out_tokens inference_tp_size "
                       "release_inference_cache pin_parameters "
                       "tp_gather_partition_size enable_cuda_graph" },
};

static void check_key(const char *path)
{
    const struct dsf_ds_key *key = dsf_ds_key_find(path);

    if (key == NULL)
        fail_msg("%s: is not in the table", path);
    if (key->fate != DSF_DS_DEAD && key->words[0] == '\0')
        fail_msg("%s: nothing says what becomes of it", path);
}

static void every_key_that_deepspeed_reads_is_in_the_table(void **state)
{
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(deepspeed) / sizeof(*deepspeed); i++) {
        char *keys = dsf_xstrdup(deepspeed[i].keys), *save;
        const char *section = deepspeed[i].section;

        for (char *key = strtok_r(keys, " ", &save); key != NULL;
             key = strtok_r(NULL, " ", &save), n++) {
            char *path =
                dsf_xasprintf("%s%s%s", section, *section ? "." : "", key);

            check_key(path);
            free(path);
        }
        free(keys);
    }
    assert_true(n > 300);
}

static void what_deepspeed_does_not_read_is_not_in_the_table(void **state)
{
    static const char *const none[] = {
        "train_batch",      "fp16",
        "fp16.enable",      "zero_optimization.stage3",
        "scheduler.params", "optimizer.lr",
        "compilers.x",      "",
    };

    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        if (dsf_ds_key_find(none[i]) != NULL)
            fail_msg("%s: is in the table", none[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_that_deepspeed_reads_is_in_the_table),
        cmocka_unit_test(what_deepspeed_does_not_read_is_not_in_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
