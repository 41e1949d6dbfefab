/* nfc.h - Unicode's normal form C: an accent is part of its letter wherever
 * there is a character for both. */
#ifndef DSF_TEXT_NFC_H
#define DSF_TEXT_NFC_H

#include <stdbool.h>
#include <stddef.h>

/* `text` in normal form, freed by the caller; NULL where nothing is to be done,
 * as in ASCII. Any bytes: what is no UTF-8 stays as it is. */
char *dsf_nfc(const char *text, size_t n, size_t *out_bytes);

/* Does a character whose first byte this is begin anew, so that a text may be
 * cut before it? */
bool dsf_nfc_begins(char first);

#endif
