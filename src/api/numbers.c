/* numbers.c - numbers have a point in what the library reads and writes,
 * whatever locale its program has set. */
#include "api/api.h"

locale_t dsf_api_enter(void)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", duplocale(uselocale(0)));

    return uselocale(c);
}

void dsf_api_leave(locale_t own)
{
    freelocale(uselocale(own));
}
