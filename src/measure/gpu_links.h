/* gpu_links.h - how fast the memory of GPUs is, and what lies between them. */
#ifndef DSF_MEASURE_GPU_LINKS_H
#define DSF_MEASURE_GPU_LINKS_H

#include "machine/machine_model.h"

/* Bytes a second from pinned main memory to a GPU, back, and both at once. */
struct dsf_gpu_link_rates {
    double in, out, both;
};

/* Copies of `bytes` bytes, timed by the GPUs: inside GPU 0 (m->main.bandwidth,
 * read and written), between it and pinned main memory (`rates`, and of them
 * m->main.host_link, what the slowest gives each way), and from GPU 1 to GPU 0
 * where there is one (m->link.bandwidth); a copy of a few bytes is
 * m->link.latency. With their scatter. */
int dsf_gpu_links(unsigned ngpus, size_t bytes, struct dsf_machine_model *m,
                  struct dsf_gpu_link_rates *rates, struct dsflow_err *err);

#endif
