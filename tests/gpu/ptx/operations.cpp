/* operations.cpp - all operations, by their names. */
#include "operations.h"

namespace ptx {

static table make()
{
    table t;

    add_arithmetic(t);
    add_words(t);
    add_memory(t);
    add_together(t);
    return t;
}

action *action_of(const std::string &name)
{
    static const table all = make();
    const auto found = all.find(name);

    if (found == all.end())
        throw unknown("operation '" + name + "' is not known");
    return found->second;
}

} // namespace ptx
