/* traffic_report.c - what ranks read of each other, for people and programs. */
#include "sim/traffic_report.h"

#include "base/units.h"

json_t *dsf_traffic_json(const struct dsf_traffic *t)
{
    json_t *all = json_object();

    for (int w = 0; w < DSF_NWIRES; w++)
        if (t->bytes[w] > 0)
            json_object_set_new(all, dsf_wires_str((enum dsf_wires)w),
                                json_pack("{s:I, s:I, s:f}", "bytes",
                                          (json_int_t)t->bytes[w], "dense",
                                          (json_int_t)t->dense[w], "ratio",
                                          t->dense[w] / t->bytes[w]));
    return all;
}

json_t *dsf_traffic_kinds_json(const struct dsf_weights *w)
{
    json_t *kinds = json_object();

    for (unsigned k = 0; k < w->nkinds; k++)
        if (w->kinds[k].moved > 0)
            json_object_set_new(kinds, w->kinds[k].op->name,
                                dsf_traffic_json(&w->kinds[k].traffic));
    json_object_set_new(kinds, "all", dsf_traffic_json(&w->traffic));
    return kinds;
}

static void print_line(const char *name, const struct dsf_traffic *t, FILE *out)
{
    double bytes = dsf_traffic_bytes(t), dense = dsf_traffic_dense(t);

    fprintf(out, "%-26s", name);
    for (int w = 0; w < DSF_NWIRES; w++)
        fprintf(out, " %13s", dsf_size_text(t->bytes[w]).s);
    fprintf(out, " %12s %10.2f x\n", dsf_size_text(dense).s, dense / bytes);
}

void dsf_traffic_print(const struct dsf_weights *w, FILE *out)
{
    const struct dsf_traffic *t = &w->traffic;

    if (!(t->bytes[DSF_WIRES_BETWEEN] > 0) &&
        !(dsf_traffic_dense(t) > dsf_traffic_bytes(t)))
        return;
    fprintf(out, "\n%-26s %13s %13s %12s %12s\n", "traffic of all ranks",
            "inside a node", "between nodes", "dense", "fewer bytes");
    for (unsigned k = 0; k < w->nkinds; k++)
        if (w->kinds[k].moved > 0)
            print_line(w->kinds[k].op->name, &w->kinds[k].traffic, out);
    print_line("total", t, out);
}
