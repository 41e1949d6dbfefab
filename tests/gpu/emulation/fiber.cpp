/* fiber.cpp - how one fiber stops and another goes on. */
#include "fiber.h"

#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS 1
#endif
#endif
#ifndef WITH_ADDRESS
#define WITH_ADDRESS 0
#endif

#if WITH_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if EMULATED_ASSEMBLER
/* What a call keeps goes to the stack, the stack's top to *save, and the same
 * back from `to`. Rounding and exceptions of floats are those of the program. */
extern "C" void emulated_switch(void **save, void *to);
asm(".text\n"
    ".p2align 4\n"
    ".type emulated_switch, @function\n"
    "emulated_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size emulated_switch, . - emulated_switch\n");
#endif

namespace emulated {

enum { PAGE = 4096 };

char *stack_new(size_t bytes)
{
    char *map = (char *)mmap(nullptr, bytes + PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                             0);

    if (map == MAP_FAILED || mprotect(map, PAGE, PROT_NONE) != 0)
        abort();
    return map + PAGE;
}

void stack_free(char *stack, size_t bytes)
{
    stack_clear(stack, bytes);
    munmap(stack - PAGE, bytes + PAGE);
}

void fiber_init(fiber *f, char *stack, size_t bytes, void (*entry)())
{
#if EMULATED_ASSEMBLER
    /* Six registers, where to return to, and what `entry` takes for the address
     * of its caller: at its start the stack is 8 off a multiple of 16. */
    void **top = (void **)(void *)(stack + bytes) - 8;

    for (int i = 0; i < 6; i++)
        top[i] = nullptr;
    top[6] = (void *)(uintptr_t)entry;
    top[7] = nullptr;
    f->top = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
#endif
    f->stack = stack;
    f->bytes = bytes;
    f->shadow = nullptr;
}

void fiber_enter(fiber *from)
{
#if WITH_ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, &from->stack, &from->bytes);
#endif
}

static void jump(fiber *from, fiber *to)
{
#if EMULATED_ASSEMBLER
    emulated_switch(&from->top, to->top);
#else
    swapcontext(&from->context, &to->context);
#endif
}

void fiber_switch(fiber *from, fiber *to)
{
#if WITH_ADDRESS
    __sanitizer_start_switch_fiber(&from->shadow, to->stack, to->bytes);
#endif
    jump(from, to);
#if WITH_ADDRESS
    __sanitizer_finish_switch_fiber(from->shadow, nullptr, nullptr);
#endif
}

void fiber_leave(fiber *from, fiber *to)
{
#if WITH_ADDRESS
    __sanitizer_start_switch_fiber(nullptr, to->stack, to->bytes);
#endif
    jump(from, to);
    abort();
}

void stack_clear(char *stack, size_t bytes)
{
#if WITH_ADDRESS
    ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
#endif
}

} // namespace emulated
