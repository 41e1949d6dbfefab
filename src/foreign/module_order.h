/* module_order.h - the order of the parameters of a model of transformers, in
 * which optimizers of torch number them. */
#ifndef DSF_FOREIGN_MODULE_ORDER_H
#define DSF_FOREIGN_MODULE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* The place of a parameter by its name in GPT-2, LLaMA, Mistral and Qwen2, as
 * their modules are made: places are to be compared, not counted. false: it has
 * no such name. */
bool dsf_module_place(const char *name, int64_t *place);

#endif
