/* fiber.h - threads that take turns on one: each has a stack, and goes on where
 * it stopped. */
#ifndef DSF_GPU_FIBER_H
#define DSF_GPU_FIBER_H

#include <cstddef>

#if defined(__x86_64__) && !defined(EMULATED_UCONTEXT)
#define EMULATED_ASSEMBLER 1
#else
#define EMULATED_ASSEMBLER 0
#include <ucontext.h>
#endif

namespace emulated {

struct fiber {
#if EMULATED_ASSEMBLER
    void *top; /* of its stack, below which its registers are */
#else
    ucontext_t context;
#endif
    const void *stack; /* for AddressSanitizer, which has to know */
    size_t bytes;
    void *shadow;
};

/* A stack, behind a page that nobody may touch. */
char *stack_new(size_t bytes);
void stack_free(char *stack, size_t bytes);

/* The next switch to `f` calls `entry`, which never returns. */
void fiber_init(fiber *f, char *stack, size_t bytes, void (*entry)());

/* First in `entry`: `from` is who switched. */
void fiber_enter(fiber *from);

/* Stop here, and go on in `to`; returns when somebody switches back. */
void fiber_switch(fiber *from, fiber *to);

/* The same, for good. */
[[noreturn]] void fiber_leave(fiber *from, fiber *to);

/* What was left in the middle of its work leaves nothing on its stack. */
void stack_clear(char *stack, size_t bytes);

} // namespace emulated

#endif
