/* gpu_peak.c - what GPUs are built to multiply, from NVIDIA's data sheets (those
 * that give figures with sparsity give twice as much). */
#include "machine/gpu_peak.h"

#include <stddef.h>
#include <string.h>

/* The first whose words are all in the name. */
static const struct peak {
    const char *words[2];
    double fp32, narrow; /* operations/s; narrow: bf16 and fp16 */
} peaks[] = {
    { { "B200" }, 75e12, 2250e12 },
    { { "GH200" }, 67e12, 989.4e12 },
    { { "H200", "NVL" }, 60e12, 835.5e12 },
    { { "H200" }, 66.9e12, 989.4e12 },
    { { "H100", "PCIe" }, 51.2e12, 756e12 },
    { { "H100", "NVL" }, 60e12, 835.5e12 },
    { { "H100" }, 66.9e12, 989.4e12 },
    { { "H800" }, 66.9e12, 989.4e12 },
    { { "A100" }, 19.5e12, 312e12 },
    { { "A800" }, 19.5e12, 312e12 },
    { { "A30" }, 10.3e12, 165e12 },
    { { "L40S" }, 91.6e12, 362e12 },
};

static int has(const char *name, const struct peak *p)
{
    return strstr(name, p->words[0]) != NULL &&
           (p->words[1] == NULL || strstr(name, p->words[1]) != NULL);
}

double dsf_gpu_peak(const char *name, enum dsflow_dtype type)
{
    for (size_t i = 0; i < sizeof(peaks) / sizeof(*peaks); i++)
        if (has(name, &peaks[i]))
            return type == DSFLOW_FP32   ? peaks[i].fp32
                   : type == DSFLOW_BF16 ||
                           type == DSFLOW_FP16
                       ? peaks[i].narrow
                       : 0;
    return 0;
}
