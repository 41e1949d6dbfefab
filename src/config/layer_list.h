/* layer_list.h - some layers of a model, as keys of job.toml name them: "all",
 * or numbers and ranges such as "0-5,8". */
#ifndef DSF_CONFIG_LAYER_LIST_H
#define DSF_CONFIG_LAYER_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* on[l]: layer l is among them. False: the text is no such list, or has a layer
 * that is not one of `layers`. */
bool dsf_layer_list_read(const char *text, int32_t layers, bool *on);

/* The layers that a list of numbers and ranges names, one after the other, as
 * often as it does: "0-5,3" has seven. How many, at most `most`; -1: it is no
 * such list, or has more. */
int32_t dsf_layer_list_in_order(const char *text, int32_t layers, int32_t *to,
                                int32_t most);

/* The text of those of dsf_layer_list_read, which the caller frees; "" for
 * none. */
char *dsf_layer_list_text(const bool *on, int32_t layers);

/* What they must be, for messages: "expected …". */
#define DSF_LAYER_LIST_EXPECTED                                                \
    "expected \"all\", or layers 0 to %d such as \"0-5,8\""
#define DSF_LAYERS_IN_ORDER_EXPECTED                                           \
    "expected at most %d of layers 0 to %d, such as 0-5,8"

#endif
