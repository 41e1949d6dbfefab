/* shape_text.h - the shape of a piece of data as people read it. */
#ifndef DSF_GRAPH_SHAPE_TEXT_H
#define DSF_GRAPH_SHAPE_TEXT_H

#include <dsflow/graph.h>

struct dsf_shape_text {
    char s[112];
};

/* "[256, 768] bf16"; "[1000] fp32" where it is flat; "48 bytes". */
struct dsf_shape_text dsf_shape_text(const struct dsflow_data_spec *data);

#endif
