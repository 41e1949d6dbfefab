/* unicode.h - characters that are younger than PCRE2 may be. */
#ifndef DSF_TEXT_UNICODE_H
#define DSF_TEXT_UNICODE_H

/* What Unicode 15 and 16 added to each category and script, as ranges of a
 * character class. With a PCRE2 that knows them it changes nothing. Ends with a
 * NULL. */
struct dsf_unicode {
    const char *name;   /* "Lu", "Arabic" */
    const char *code;   /* of a script: "Arab"; of a category NULL */
    const char *ranges; /* for PCRE2 */
};
extern const struct dsf_unicode dsf_unicode_new[];

#endif
