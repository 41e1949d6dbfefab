/* program.h - a kernel as nvcc leaves it in PTX, read into instructions that
 * each thread of an emulated block goes through (PTX ISA 9.0). What the
 * emulation compiles is CUDA C++; this is what a GPU gets: nvcc's choice of
 * operations, its products that it joins with sums, and what stands in `asm`.
 */
#ifndef DSF_GPU_PTX_PROGRAM_H
#define DSF_GPU_PTX_PROGRAM_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {

/* What is read as PTX, but is none that is known here: file, line and text. */
struct unknown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* A thread of a block. */
struct frame {
    uint64_t *r; /* registers, constants and names of the program, as slots */
    size_t next; /* instruction */
    bool done;
};

struct instruction;
typedef void action(frame &f, const instruction &i);

enum { MOST_OPERANDS = 14 }; /* of mma */

struct instruction {
    action *act;
    int32_t guard; /* a predicate; -1: always */
    bool unless;   /* the predicate is false */
    uint32_t n;    /* operands, those in braces one by one */
    int32_t at[MOST_OPERANDS];
    int64_t plus[2]; /* to addresses, in their order */
    size_t target;   /* of a branch */
    const char *file;
    int line;
};

/* An argument, as it lies in memory. */
struct parameter {
    size_t at, bytes;
};

/* Slots that are the thread's: its place, its arguments. */
enum special {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANEID,
    ARGUMENTS,
    SPECIALS
};

struct program {
    std::string name;
    std::vector<instruction> code;
    std::vector<uint64_t> first; /* slots at the start */
    int32_t where[SPECIALS];     /* their slots; -1: not used */
    std::vector<parameter> parameters;
    size_t threads = 0; /* of a block, at most; 0: it does not say */

    /* Is it given what it expects: arguments that begin at these bytes, and end
     * at `bytes`? Throws `unknown`. */
    void check_arguments(const std::vector<size_t> &at, size_t bytes) const;
    /* Has a block no more threads than there are registers for? As above. */
    void check_block(size_t threads_of_block) const;
};

/* What a thread does from the first instruction to the end. */
void run(const program &p, const unsigned char *arguments);

/* The entry that `text` begins with, at a line of a file; both stay. */
program parse(const char *text, const char *file, int line);

/* What an operation does, by its name; throws `unknown`. Operands are in the
 * order of the manual; a second result that is not wanted is a slot that nobody
 * reads. What has no name of its own there: lea (the address of an argument),
 * mov.b32.pack and .unpack (of numbers in braces, to such), mul.f32.kept (a
 * product whose operands 3 and 4 keep what it is of). */
action *action_of(const std::string &name);

/* `sum` (add.f32, sub.f32) of what its operand `which` (1 or 2) is a product
 * of: rounded once. Its operands: result, the two of the product, the other. */
action *joined_action(const std::string &sum, int which);

/* The entry of an emulated kernel, among the .ptx files of a folder. */
const program &program_of(const void *kernel, const char *folder);

} // namespace ptx

#endif
