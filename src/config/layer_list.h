/* layer_list.h - some layers of a model, as keys of job.toml name them: "all",
 * or numbers and ranges such as "0-5,8". */
#ifndef DSF_CONFIG_LAYER_LIST_H
#define DSF_CONFIG_LAYER_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* on[l]: layer l is among them. False: the text is no such list, or has a layer
 * that is not one of `layers`. */
bool dsf_layer_list_read(const char *text, int32_t layers, bool *on);

/* The text of those, which the caller frees; "" for none. */
char *dsf_layer_list_text(const bool *on, int32_t layers);

/* What a key must be, for messages: "expected …". */
#define DSF_LAYER_LIST_EXPECTED                                                \
    "expected \"all\", or layers 0 to %d such as \"0-5,8\""

#endif
