/* parse.cpp - the text of an entry: registers become slots, and so do constants
 * and names. */
#include "program.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

namespace ptx {

namespace {

bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' ||
           c == '.' || c == ':';
}

/* Words and signs, without comments. */
struct reader {
    const char *at, *file;
    int line;

    [[noreturn]] void fail(const std::string &what) const
    {
        throw unknown(std::string(file) + ":" + std::to_string(line) + ": " +
                      what);
    }
    void skip()
    {
        for (;; at++) {
            if (at[0] == '/' && at[1] == '/')
                at += strcspn(at, "\n");
            if (*at == '\n')
                line++;
            else if (*at == '\0' || !isspace((unsigned char)*at))
                return;
        }
    }
    char peek()
    {
        skip();
        return *at;
    }
    bool take(char c)
    {
        if (peek() != c)
            return false;
        at++;
        return true;
    }
    void expect(char c)
    {
        if (!take(c))
            fail(std::string("'") + c + "' expected at '" +
                 std::string(at, std::min(strlen(at), (size_t)20)) + "'");
    }
    std::string word()
    {
        const char *from;

        skip();
        from = at;
        if (*at == '-')
            at++;
        while (is_word(*at))
            at++;
        if (at == from)
            fail("a word expected");
        return std::string(from, at);
    }
    /* To behind the next c. */
    void pass(char c)
    {
        while (peek() != c && *at != '\0')
            at++;
        expect(c);
    }
};

size_t bytes_of(const std::string &type)
{
    return (size_t)atoi(type.c_str() + 2) / 8;
}

const char *const special_names[SPECIALS] = {
    "%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
    "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
    "%nctaid.y", "%nctaid.z", "%laneid"
};

/* How often a slot is a result, and the product that it is then. */
struct result {
    unsigned times;
    size_t by;
};

struct parser : reader {
    program p;
    std::map<std::string, int32_t> slots;
    std::map<std::string, size_t> labels, arguments;
    std::vector<std::pair<size_t, std::string>> branches;
    std::vector<std::string> names; /* of operations */

    parser(const char *text, const char *file_, int line_)
        : reader{ text, file_, line_ }
    {
        std::fill_n(p.where, (size_t)SPECIALS, -1);
    }

    int32_t new_slot(uint64_t value)
    {
        p.first.push_back(value);
        return (int32_t)p.first.size() - 1;
    }
    int32_t special_slot(special which)
    {
        if (p.where[which] < 0)
            p.where[which] = new_slot(0);
        return p.where[which];
    }

    /* (.param .u64 a, .param .align 8 .b8 b[40]) */
    void read_parameters()
    {
        size_t end = 0;

        expect('(');
        while (!take(')')) {
            size_t align = 0, bytes;
            std::string type;

            take(',');
            if (word() != ".param")
                fail(".param expected");
            type = word();
            if (type == ".align") {
                align = (size_t)std::stoul(word());
                type = word();
            }
            bytes = bytes_of(type);
            align = std::max(align, bytes);
            const std::string name = word();

            if (take('[')) {
                bytes *= (size_t)std::stoul(word());
                expect(']');
            }
            end = (end + align - 1) / align * align;
            arguments[name] = end;
            p.parameters.push_back({ end, bytes });
            end += bytes;
        }
    }

    /* .reg .b32 %r<9>; or names one by one. */
    void read_registers()
    {
        word();
        do {
            const std::string name = word();

            if (!take('<')) {
                slots[name] = new_slot(0xdeadbeefdeadbeef);
                continue;
            }
            const unsigned long n = std::stoul(word());

            expect('>');
            for (unsigned long i = 0; i < n; i++)
                slots[name + std::to_string(i)] = new_slot(0xdeadbeefdeadbeef);
        } while (take(','));
        expect(';');
    }

    int32_t constant(const std::string &text)
    {
        auto known = slots.find(text);
        uint64_t value;

        if (known != slots.end())
            return known->second;
        if (text[0] == '0' && (text[1] == 'f' || text[1] == 'd'))
            value = std::stoull(text.substr(2), nullptr, 16);
        else if (text[0] == '-')
            value = (uint64_t)std::stoll(text, nullptr, 0);
        else
            value = std::stoull(text, nullptr, 0);
        return slots[text] = new_slot(value);
    }

    int32_t slot_of(const std::string &text)
    {
        const auto known = slots.find(text);

        if (known != slots.end())
            return known->second;
        if (text == "_")
            return new_slot(0);
        if (text == "dev_shared_bytes") /* where shared memory begins */
            return constant("0");
        for (int s = 0; s < ARGUMENTS; s++)
            if (text == special_names[s])
                return special_slot((special)s);
        if (isdigit((unsigned char)text[0]) || text[0] == '-')
            return constant(text);
        fail("'" + text + "' is not known");
    }

    void add_operand(instruction *i, int32_t slot)
    {
        if (i->n == MOST_OPERANDS)
            fail("too many operands");
        i->at[i->n++] = slot;
    }

    /* [a+8], [name+-8] */
    void read_address(instruction *i, unsigned which)
    {
        const std::string name = word();
        const auto argument = arguments.find(name);
        int64_t plus = take('+') ? std::stoll(word(), nullptr, 0) : 0;

        if (argument != arguments.end()) {
            plus += (int64_t)argument->second;
            add_operand(i, special_slot(ARGUMENTS));
        } else {
            add_operand(i, slot_of(name));
        }
        if (which >= std::size(i->plus))
            fail("too many addresses");
        i->plus[which] = plus;
        expect(']');
    }

    void read_operands(instruction *i)
    {
        unsigned addresses = 0;

        while (peek() != ';') {
            if (take(',') || take('{') || take('}') || take('|'))
                continue;
            if (take('[')) {
                read_address(i, addresses++);
                continue;
            }
            const std::string name = word();
            const auto argument = arguments.find(name);

            if (argument != arguments.end()) {
                i->plus[0] = (int64_t)argument->second;
                add_operand(i, special_slot(ARGUMENTS));
            } else {
                add_operand(i, slot_of(name));
            }
        }
        expect(';');
    }

    void read_instruction(std::string name)
    {
        instruction i = {};

        const char first = peek();

        i.file = file;
        i.line = line;
        if (name == "bra" || name == "bra.uni") {
            branches.push_back({ p.code.size(), word() });
            expect(';');
        } else {
            read_operands(&i);
        }
        if (name.rfind("shfl.", 0) == 0 && i.n == 5) { /* no second result */
            std::copy_backward(i.at + 1, i.at + 5, i.at + 6);
            i.at[1] = new_slot(0);
            i.n++;
        }
        if (name.rfind("mov.", 0) == 0) {
            if (i.n > 2)
                name += first == '{' ? ".unpack" : ".pack";
            else if (i.at[1] == p.where[ARGUMENTS])
                name = "lea";
        }
        try {
            i.act = action_of(name);
        } catch (const unknown &e) {
            fail(e.what());
        }
        p.code.push_back(i);
        names.push_back(name);
    }

    void read_statement()
    {
        int32_t guard = -1;
        bool unless = false;
        std::string name;

        if (take('{')) {
            depth++;
            return;
        }
        if (take('}')) {
            depth--;
            return;
        }
        if (take('@')) {
            unless = take('!');
            guard = slot_of(word());
        }
        name = word();
        if (name.back() == ':') {
            labels[name.substr(0, name.size() - 1)] = p.code.size();
        } else if (name == ".reg") {
            read_registers();
        } else if (name == ".pragma") {
            pass(';');
        } else if (name[0] == '.') {
            fail("'" + name + "' is not known");
        } else {
            read_instruction(name);
            p.code.back().guard = guard;
            p.code.back().unless = unless;
        }
    }

    /* A sum without a rounding of its own may be joined with a product that has
     * none either: ptxas may, so it is. What the product is of is kept beside
     * it, as registers of it may be written in between. */
    void join_products()
    {
        std::map<int32_t, result> results;
        std::map<size_t, int32_t> kept;

        for (size_t k = 0; k < p.code.size(); k++)
            if (p.code[k].n > 0 && names[k].rfind("st.", 0) != 0) {
                result &r = results[p.code[k].at[0]];

                r.times++;
                r.by = k;
            }
        for (size_t k = 0; k < p.code.size(); k++) {
            instruction &sum = p.code[k];

            if (names[k] != "add.f32" && names[k] != "sub.f32")
                continue;
            for (int which = 1; which <= 2; which++) {
                const auto r = results.find(sum.at[which]);

                if (r == results.end() || r->second.times != 1 ||
                    names[r->second.by] != "mul.f32")
                    continue;
                instruction &product = p.code[r->second.by];

                if (kept.count(r->second.by) == 0) {
                    kept[r->second.by] = new_slot(0);
                    product.at[3] = kept[r->second.by];
                    product.at[4] = new_slot(0);
                    product.n = 5;
                    product.act = action_of("mul.f32.kept");
                }
                sum.at[3] = sum.at[3 - which];
                sum.at[1] = product.at[3];
                sum.at[2] = product.at[4];
                sum.n = 4;
                sum.act = joined_action(names[k], which);
                break;
            }
        }
    }

    int depth = 0;

    /* Of what stands behind a directive: 256, 1, 1 */
    size_t read_product()
    {
        size_t product = 1;

        do
            product *= strtoul(word().c_str(), nullptr, 10);
        while (take(','));
        return product;
    }

    void read_entry()
    {
        if (word() != ".entry")
            fail(".entry expected");
        p.name = word();
        read_parameters();
        while (peek() != '{') {
            const std::string directive = word();
            const size_t number = read_product();

            if (directive == ".maxntid")
                p.threads = number;
        }
        expect('{');
        for (depth = 1; depth > 0;)
            read_statement();
        for (const auto &b : branches) {
            const auto label = labels.find(b.second);

            if (label == labels.end())
                fail("no label " + b.second);
            p.code[b.first].target = label->second;
        }
        join_products();
    }
};

} // namespace

program parse(const char *text, const char *file, int line)
{
    parser it(text, file, line);

    it.read_entry();
    return std::move(it.p);
}

} // namespace ptx
