/* loops_types.h - the loops that there are for every type of data, for one of
 * them: included once a type by loops_all.h, which defines before
 *
 *   NUM          a number of the type in memory: float, or uint16_t
 *   LOAD, STORE  as vload and vstore, of such numbers
 *   OF(name)     a function's name, with the type's
 *   NORM         the structure of a norm whose weights have the type
 *
 * Sums, and what is not named NUM, are fp32. */
#include "kernels/loops_sums.h"
#include "kernels/loops_norm.h"
#include "kernels/loops_act.h"
#include "kernels/loops_update.h"
#include "kernels/loops_row.h"
