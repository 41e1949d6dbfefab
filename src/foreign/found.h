/* found.h - what a file or folder that somebody has is: dsflow's, or a
 * checkpoint of another program. */
#ifndef DSF_FOREIGN_FOUND_H
#define DSF_FOREIGN_FOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>

enum dsf_found_kind {
    DSF_FOUND_RUN,         /* the output folder of a job */
    DSF_FOUND_CHECKPOINT,  /* step-N of one */
    DSF_FOUND_HF,          /* a model of Hugging Face's */
    DSF_FOUND_DEEPSPEED,   /* global_stepN */
    DSF_FOUND_UNIVERSAL,   /* what ds_to_universal makes of one */
    DSF_FOUND_MEGATRON,    /* iter_NNNNNNN or release */
    DSF_FOUND_DISTCP,      /* torch.distributed.checkpoint */
    DSF_FOUND_SAFETENSORS, /* one file */
    DSF_FOUND_TORCH,       /* one file that torch.save wrote */
    DSF_FOUND_NKINDS
};

struct dsf_found {
    enum dsf_found_kind kind;
    char *path;   /* the file, or the folder that has the files */
    char *tag;    /* "global_step10", "iter_0000100", where `path` is that of a
                     folder which says so in `latest`; or NULL */
    bool trainer; /* beside it is what Hugging Face's Trainer writes */
    char **files; /* in `path`, what has tensors: by name, numbers as such */
    size_t nfiles, cap;

    /* Of DeepSpeed, universal and Megatron's folders. */
    int stage; /* of ZeRO, 0 to 3 */
    int data, tensor, pipeline;
    bool bf16_optimizer; /* it is BF16_Optimizer's, which shares out states */
    char version[32];    /* of DeepSpeed; of Megatron's format; "": not said */
};

/* `tag`: of the folders that `path` has; NULL: the latest. Reads what files say
 * of themselves, no numbers. Errors: DSFLOW_EINVAL where it is nothing of
 * these, or a file is damaged; DSFLOW_EIO. */
int dsf_found_look(const char *path, const char *tag, struct dsf_found *found,
                   struct dsflow_err *err);
void dsf_found_fini(struct dsf_found *found);

/* "deepspeed": for JSON. */
const char *dsf_found_kind_str(enum dsf_found_kind kind);
/* "DeepSpeed, ZeRO 2, 4 ranks: DP 4 x TP 1 x PP 1"; free it. */
char *dsf_found_text(const struct dsf_found *found);

#endif
