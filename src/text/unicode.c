/* unicode.c - what Unicode 15, 15.1 and 16 added (DerivedGeneralCategory.txt,
 * Scripts.txt): Debian 12's PCRE2 is of Unicode 14, the tokenizers of today are
 * not, and a letter must be a letter to both. */
#include "text/unicode.h"

#include <stddef.h>

#define C(a)    "\\x{" #a "}"
#define R(a, b) "\\x{" #a "}-\\x{" #b "}"

/* clang-format off */
const struct dsf_unicode dsf_unicode_new[] = {
    { "Lu", NULL, C(1c89) R(a7cb, a7cc) C(a7da) C(a7dc) R(10d50, 10d65) },
    { "Ll", NULL, C(1c8a) C(a7cd) C(a7db) R(10d70, 10d85) R(1df25, 1df2a) },
    { "Lm", NULL, C(10d4e) C(10d6f) R(16d40, 16d42) R(16d6b, 16d6c)
      R(1e030, 1e06d) C(1e4eb) },
    { "Lo", NULL, R(105c0, 105f3) R(10d4a, 10d4d) C(10d4f) R(10ec2, 10ec4)
      R(1123f, 11240) R(11380, 11389) C(1138b) C(1138e) R(11390, 113b5)
      C(113b7) C(113d1) C(113d3) R(11bc0, 11be0) C(11f02) R(11f04, 11f10)
      R(11f12, 11f33) C(1342f) R(13441, 13446) R(13460, 143fa)
      R(16100, 1611d) R(16d43, 16d6a) C(18cff) C(1b132) C(1b155)
      R(1e4d0, 1e4ea) R(1e5d0, 1e5ed) C(1e5f0) C(2b739) R(2ebf0, 2ee5d)
      R(31350, 323af) },
    { "Mn", NULL, C(897) C(ece) R(10d69, 10d6d) R(10efc, 10eff) C(11241)
      R(113bb, 113c0) C(113ce) C(113d0) C(113d2) R(113e1, 113e2)
      R(11f00, 11f01) R(11f36, 11f3a) C(11f40) C(11f42) C(11f5a) C(13440)
      R(13447, 13455) R(1611e, 16129) R(1612d, 1612f) C(1e08f)
      R(1e4ec, 1e4ef) R(1e5ee, 1e5ef) },
    { "Mc", NULL, C(cf3) R(113b8, 113ba) C(113c2) C(113c5) R(113c7, 113ca)
      R(113cc, 113cd) C(113cf) C(1171e) C(11f03) R(11f34, 11f35)
      R(11f3e, 11f3f) C(11f41) R(1612a, 1612c) },
    { "Nd", NULL, R(10d40, 10d49) R(116d0, 116e3) R(11bf0, 11bf9) R(11f50, 11f59)
      R(16130, 16139) R(16d70, 16d79) R(1ccf0, 1ccf9) R(1e4f0, 1e4f9)
      R(1e5f1, 1e5fa) },
    { "No", NULL, R(1d2c0, 1d2d3) },
    { "Pd", NULL, C(10d6e) },
    { "Po", NULL, R(1b4e, 1b4f) C(1b7f) R(113d4, 113d5) R(113d7, 113d8)
      R(11b00, 11b09) C(11be1) R(11f43, 11f4f) R(16d6d, 16d6f) C(1e5ff) },
    { "Sm", NULL, R(10d8e, 10d8f) },
    { "So", NULL, R(2427, 2429) R(2ffc, 2fff) R(31e4, 31e5) C(31ef)
      R(1cc00, 1ccef) R(1cd00, 1ceb3) C(1f6dc) R(1f774, 1f776)
      R(1f77b, 1f77f) C(1f7d9) R(1f8b2, 1f8bb) R(1f8c0, 1f8c1)
      R(1fa75, 1fa77) R(1fa87, 1fa89) C(1fa8f) R(1faad, 1faaf)
      R(1fabb, 1fabf) C(1fac6) R(1face, 1facf) R(1fada, 1fadc) C(1fadf)
      R(1fae8, 1fae9) R(1faf7, 1faf8) R(1fbcb, 1fbef) },
    { "Cf", NULL, R(13439, 1343f) },
    { "Arabic", "Arab", C(897) R(10ec2, 10ec4) R(10efc, 10eff) },
    { "Balinese", "Bali", R(1b4e, 1b4f) C(1b7f) },
    { "Common", "Zyyy", R(2427, 2429) R(2ffc, 2fff) R(31e4, 31e5) C(31ef)
      R(1cc00, 1ccf9) R(1cd00, 1ceb3) R(1d2c0, 1d2d3) C(1f6dc)
      R(1f774, 1f776) R(1f77b, 1f77f) C(1f7d9) R(1f8b2, 1f8bb)
      R(1f8c0, 1f8c1) R(1fa75, 1fa77) R(1fa87, 1fa89) C(1fa8f)
      R(1faad, 1faaf) R(1fabb, 1fabf) C(1fac6) R(1face, 1facf)
      R(1fada, 1fadc) C(1fadf) R(1fae8, 1fae9) R(1faf7, 1faf8)
      R(1fbcb, 1fbef) },
    { "Cyrillic", "Cyrl", R(1c89, 1c8a) R(1e030, 1e06d) C(1e08f) },
    { "Devanagari", "Deva", R(11b00, 11b09) },
    { "Egyptian_Hieroglyphs", "Egyp", C(1342f) R(13439, 13455)
      R(13460, 143fa) },
    { "Han", "Hani", C(2b739) R(2ebf0, 2ee5d) R(31350, 323af) },
    { "Hiragana", "Hira", C(1b132) },
    { "Kannada", "Knda", C(cf3) },
    { "Katakana", "Kana", C(1b155) },
    { "Khitan_Small_Script", "Kits", C(18cff) },
    { "Khojki", "Khoj", R(1123f, 11241) },
    { "Lao", "Laoo", C(ece) },
    { "Latin", "Latn", R(a7cb, a7cd) R(a7da, a7dc) R(1df25, 1df2a) },
    { "Myanmar", "Mymr", R(116d0, 116e3) },
    { NULL, NULL, NULL },
};
/* clang-format on */
