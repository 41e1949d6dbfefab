/* touch.h - memory that is there before it is used. */
#ifndef DSF_BASE_TOUCH_H
#define DSF_BASE_TOUCH_H

#include <stddef.h>

/* Have the kernel give all pages of this memory now, on all cores at once: what
 * pins memory asks for them one by one, on one. What is in it stays. `at` is the
 * beginning of a page. Where the kernel cannot (before Linux 5.14), or memory
 * runs out, nothing is said: pages come when they are used. */
void dsf_touch(void *at, size_t bytes);

/* The same on the calling thread alone: DSF_TOUCH_PIECE bytes, or fewer, so
 * that who maps memory meanwhile need not wait long. */
enum { DSF_TOUCH_PIECE = 2 << 20 }; /* a huge page */
void dsf_touch_piece(void *at, size_t bytes);

#endif
