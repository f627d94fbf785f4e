/* CRC-32C (Castagnoli), which finds every burst of up to 32 wrong bits.
 *
 * Start with a seed of 0; the checksum of A followed by B is
 * lw_crc32c(lw_crc32c(0, A, ...), B, ...). */
#ifndef LW_BASE_CHECKSUM_H
#define LW_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t lw_crc32c(uint32_t seed, const void *bytes, size_t len);
/* The same without the processor's help; apart for tests. */
uint32_t lw_crc32c_by_table(uint32_t seed, const void *bytes, size_t len);

#endif
