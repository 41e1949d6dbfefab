/* test.h - what cmocka needs before it, and cmocka. */
#ifndef DSF_TESTS_LIB_TEST_H
#define DSF_TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#endif
