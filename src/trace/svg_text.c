/* svg_text.c - numbers and text as SVG has them, and what axes say. */
#include "trace/svg.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct dsf_svg_num dsf_svg_num(double v)
{
    struct dsf_svg_num n;
    char *end;

    snprintf(n.s, sizeof(n.s), "%.2f", v);
    end = n.s + strlen(n.s) - 1;
    while (*end == '0')
        *end-- = '\0';
    if (*end == '.')
        *end = '\0';
    return n;
}

void dsf_svg_escape(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            if ((unsigned char)*c >= ' ' || *c == '\n')
                fputc(*c, out);
        }
}

void dsf_svg_text(FILE *out, double x, double y, const char *how,
                  const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(out, "<text x=\"%s\" y=\"%s\"%s>", dsf_svg_num(x).s,
            dsf_svg_num(y).s, how);
    dsf_svg_escape(out, text);
    fputs("</text>\n", out);
}

double dsf_svg_tick(double most, int n)
{
    double least = most / n, tick = pow(10, floor(log10(least)));

    return least <= tick       ? tick
           : least <= 2 * tick ? 2 * tick
           : least <= 5 * tick ? 5 * tick
                               : 10 * tick;
}
