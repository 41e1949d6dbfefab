/* crc64.h - the CRC-64 of a file (CRC-64/XZ) of which several write parts: it
 * is linear, so the sums of the parts are put together by exclusive or. */
#ifndef DSF_BASE_CRC64_H
#define DSF_BASE_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* A sum begins as 0. Of bytes with `bytes` more behind them: */
uint64_t dsf_crc64_add(uint64_t sum, const void *data, size_t bytes);

/* The same where what is behind them is of another sum, or zeroes. Sums that
 * reach the same end, and of which no two have the same byte, give with ^ that
 * of all their bytes. */
uint64_t dsf_crc64_skip(uint64_t sum, uint64_t bytes);

/* The CRC-64 of a file of `bytes` bytes with that sum. */
uint64_t dsf_crc64_of(uint64_t sum, uint64_t bytes);

#endif
