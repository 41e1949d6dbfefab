/* choice.h - the values of a key that is one of several names, listed once:
 *
 *     #define DSF_ORDERS(X) X(DSF_UP, "up") X(DSF_DOWN, "down")
 *     enum dsf_order { DSF_ORDERS(DSF_CHOICE_VALUE) };
 *     static const char *const orders[] = { DSF_ORDERS(DSF_CHOICE_NAME) NULL };
 */
#ifndef DSF_CONFIG_CHOICE_H
#define DSF_CONFIG_CHOICE_H

#define DSF_CHOICE_VALUE(value, name) value,
#define DSF_CHOICE_NAME(value, name)  [value] = (name),

#endif
