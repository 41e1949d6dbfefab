/* loops_key_tiles.h - attention to keys of one tile or several, one tile after
 * the other: what each of them adds is rounded as if it had a task of its own. */
#ifndef DSF_KERNELS_LOOPS_KEY_TILES_H
#define DSF_KERNELS_LOOPS_KEY_TILES_H

static void attention_forward(const struct dsf_attention *a,
                              struct dsf_numbers q, struct dsf_numbers kv,
                              struct dsf_numbers att, float *lse,
                              float *scratch)
{
    const size_t ldkv = 2 * a->kv_heads * a->head_dim;
    int first = a->first;

    if (used_in_place(a, kv)) {
        forward_in_place(a, q, kv.p, att, lse, scratch);
        return;
    }
    for (size_t i = 0; i < key_tiles(a); i++) {
        struct dsf_attention t = key_tile(a, i);

        if (all_hidden(&t))
            continue;
        t.first = first;
        first = 0;
        forward_tile(&t, q, from(kv, i * a->key_tile * ldkv), att, lse,
                     scratch);
    }
}

static void attention_backward(const struct dsf_attention *a,
                               struct dsf_numbers q, struct dsf_numbers kv,
                               struct dsf_numbers datt, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkv, float *scratch)
{
    const size_t ldkv = 2 * a->kv_heads * a->head_dim;
    int first = a->first_q;

    if (used_in_place(a, kv)) {
        backward_in_place(a, q, kv.p, datt, lse, delta, dq, dkv, scratch);
        return;
    }
    for (size_t i = key_tiles(a); i-- > 0;) {
        struct dsf_attention t = key_tile(a, i);
        const struct dsf_numbers to = from(dkv, i * a->key_tile * ldkv);

        if (all_hidden(&t)) {
            if (a->first_kv)
                clear_rows(to, ldkv, t.keys, ldkv);
            continue;
        }
        t.first_q = first;
        first = 0;
        backward_tile(&t, q, from(kv, i * a->key_tile * ldkv), datt, lse, delta,
                      dq, to, scratch);
    }
}

#endif
