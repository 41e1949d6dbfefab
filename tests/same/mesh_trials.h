/* mesh_trials.h - the trials of test_meshes, in the words of trial.h. */
#ifndef DSF_TESTS_SAME_MESH_TRIALS_H
#define DSF_TESTS_SAME_MESH_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

/* Ends with NULL. */
extern const char *const mesh_trials[];

/* Random trials: a seed gives the same ones everywhere. */
struct dice {
    uint64_t state;
};

/* The next one; freed by the caller. On GPUs: of two layers, on 1, 2 or 4. */
char *random_trial(struct dice *d, bool on_gpus);

#endif
