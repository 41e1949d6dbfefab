/* toml_read.cpp - TOML as a flat list of values, through toml++. */
#include "config/toml_read.h"

/* toml++ asserts on a few texts that are no TOML. A job must not end the
 * process, so that such an assertion is a syntax error like the others. */
#include <stdexcept>

namespace {

[[noreturn, gnu::noinline]] void not_toml()
{
    throw std::logic_error("this line is not TOML");
}

} // namespace

#define TOML_EXCEPTIONS           1
#define TOML_ASSERT(what)         ((what) ? void() : not_toml())
#define TOML_ASSERT_ASSUME(what)  TOML_ASSERT(what)
#include <toml++/toml.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

extern "C" {
#include "base/alloc.h"
#include "base/units.h"
}

namespace {

char *copy(std::string_view s)
{
    return dsf_xstrndup(s.data(), s.size());
}

std::string as_toml(const toml::node &node)
{
    std::ostringstream out;

    out.imbue(std::locale::classic()); /* whatever the program has set */
    node.visit([&](const auto &n) { out << n; });
    return out.str();
}

/* An exponent or a point makes it a float in TOML. */
std::string real(double x)
{
    const std::string text = std::isnan(x) ? "nan" : dsf_real_text(x).s;

    return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* On one line. toml++ would write a string with line ends in three quotes, and
 * a line end that it begins with is not read back. */
std::string escaped(const std::string &s)
{
    std::string text = "\"";
    char code[8];

    for (unsigned char c : s) {
        std::snprintf(code, sizeof(code), "\\u%04x", c);
        if (c == '"' || c == '\\')
            text += '\\';
        if (c == '\n')
            text += "\\n";
        else if (c == '\t')
            text += "\\t";
        else if (is_control(c))
            text += code;
        else
            text += static_cast<char>(c);
    }
    return text + '"';
}

/* As people write it: in double quotes where nothing needs an escape. */
std::string quoted(const std::string &s)
{
    bool plain = true;

    for (unsigned char c : s) {
        if (is_control(c))
            return escaped(s);
        plain = plain && c != '"' && c != '\\';
    }
    return plain ? '"' + s + '"' : as_toml(toml::value<std::string>(s));
}

std::string as_text(const toml::node &node)
{
    std::string text;

    if (const auto *f = node.as_floating_point())
        return real(f->get());
    if (const auto *s = node.as_string())
        return quoted(s->get());
    if (const auto *a = node.as_array()) {
        for (const auto &item : *a)
            text += (text.empty() ? "" : ", ") + as_text(item);
        return '[' + text + ']';
    }
    return as_toml(node);
}

void fill(struct dsf_toml_value &to, const toml::node &node)
{
    to = {};
    to.type = DSF_TOML_OTHER;
    to.text = copy(as_text(node));
    if (node.is_table() && node.as_table()->empty())
        to.type = DSF_TOML_TABLE;
    if (const auto *b = node.as_boolean()) {
        to.type = DSF_TOML_BOOL;
        to.integer = b->get();
    } else if (const auto *i = node.as_integer()) {
        to.type = DSF_TOML_INT;
        to.integer = i->get();
        to.number = static_cast<double>(to.integer);
    } else if (const auto *f = node.as_floating_point()) {
        to.type = DSF_TOML_FLOAT;
        to.number = f->get();
    } else if (const auto *s = node.as_string()) {
        /* A NUL cannot be in a path or a name: what follows it would be lost
         * without a word, so such a string is no string. */
        if (s->get().find('\0') == std::string::npos) {
            to.type = DSF_TOML_STRING;
            to.string = copy(s->get());
        }
    } else if (const auto *a = node.as_array()) {
        to.type = DSF_TOML_ARRAY;
        to.items = static_cast<dsf_toml_value *>(
            dsf_xcalloc(a->size(), sizeof(*to.items)));
        for (const auto &item : *a)
            fill(to.items[to.nitems++], item);
    }
}

void append(struct dsf_toml *out, const char *table, std::string_view key,
            const toml::node &node, int line)
{
    dsf_grow(&out->v, &out->cap, out->n + 1, sizeof(*out->v));
    dsf_toml_entry &e = out->v[out->n++];

    e.table = dsf_xstrdup(table);
    e.key = copy(key);
    e.line = line;
    fill(e.value, node);
}

int line_of(const toml::node &node)
{
    return static_cast<int>(node.source().begin.line);
}

void append_table(struct dsf_toml *out, const std::string &name,
                  const toml::table &table);

/* [[name]] is name[0], name[1] … */
void append_tables(struct dsf_toml *out, const std::string &name,
                   const toml::array &tables)
{
    size_t i = 0;

    for (const auto &node : tables) {
        std::string one = name + '[' + std::to_string(i++) + ']';

        append(out, one.c_str(), "", toml::table{}, line_of(node));
        append_table(out, one, *node.as_table());
    }
}

/* What stands under a key of the table `outer`: a table in a table is one
 * called "outer.inner". */
void append_node(struct dsf_toml *out, const std::string &outer,
                 const std::string &key, const toml::node &node)
{
    std::string name = outer.empty() ? key : outer + "." + key;

    if (const toml::table *table = node.as_table()) {
        if (table->empty()) /* so that an unknown table is seen */
            append(out, name.c_str(), "", node, line_of(node));
        append_table(out, name, *table);
    } else if (node.is_array_of_tables()) {
        append_tables(out, name, *node.as_array());
    } else {
        append(out, outer.c_str(), key, node, line_of(node));
    }
}

void append_table(struct dsf_toml *out, const std::string &name,
                  const toml::table &table)
{
    for (const auto &[key, node] : table)
        append_node(out, name, std::string(key.str()), node);
}

/* The line that toml++ asserts at: with less of the text it does not get so
 * far. */
unsigned line_of_assertion(std::string_view text)
{
    unsigned line = 1;

    for (size_t at = text.find('\n'); at != text.npos;
         at = text.find('\n', at + 1), line++) {
        try {
            (void)toml::parse(text.substr(0, at + 1));
        } catch (const toml::parse_error &) {
        } catch (const std::logic_error &) {
            return line;
        }
    }
    return line;
}

/* What toml++ says, and what it means where that is not clear. */
std::string explained(std::string_view what)
{
    static const char *const of_words[] = { "could not determine value type",
                                            "parsing boolean",
                                            "integer: expected digit",
                                            "floating-point: expected" };
    std::string text(what);

    for (const char *begin : of_words)
        if (what.find(begin) != what.npos)
            return text + " (a string stands in quotes)";
    return text;
}

void free_value(struct dsf_toml_value &v)
{
    for (size_t i = 0; i < v.nitems; i++)
        free_value(v.items[i]);
    std::free(v.items);
    std::free(v.string);
    std::free(v.text);
}

} // namespace

extern "C" int dsf_toml_parse(const char *text, size_t bytes, const char *path,
                              struct dsf_toml *out, struct dsflow_err *err)
{
    toml::table root;
    int status = dsf_toml_check(text, bytes, path, err);

    if (status < 0)
        return status;
    try {
        root = toml::parse(std::string_view(text, bytes));
    } catch (const toml::parse_error &e) {
        return dsflow_fail(err, DSFLOW_EINVAL, "%s:%u: %s", path,
                           static_cast<unsigned>(e.source().begin.line),
                           explained(e.description()).c_str());
    } catch (const std::exception &e) {
        return dsflow_fail(err, DSFLOW_EINVAL, "%s:%u: %s", path,
                           line_of_assertion(std::string_view(text, bytes)),
                           e.what());
    }
    append_table(out, "", root);
    return DSFLOW_OK;
}

extern "C" char *dsf_toml_quote(const char *string)
{
    return copy(quoted(string));
}

extern "C" char *dsf_toml_real(double x)
{
    return copy(real(x));
}

extern "C" void dsf_toml_fini(struct dsf_toml *toml)
{
    for (size_t i = 0; i < toml->n; i++) {
        std::free(toml->v[i].table);
        std::free(toml->v[i].key);
        free_value(toml->v[i].value);
    }
    std::free(toml->v);
    *toml = {};
}
