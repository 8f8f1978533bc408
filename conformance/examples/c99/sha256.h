/* SHA-256 (FIPS 180-4), for the digests of a trace. */

#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
};

/* "sha256:", 64 hexadecimal digits, NUL. */
enum { SHA256_TEXT = 72 };

void sha256_start(struct sha256 *hash);
void sha256_bytes(struct sha256 *hash, const void *data, size_t length);

/* Each double as eight little-endian bytes, whatever the machine's own order is. */
void sha256_doubles(struct sha256 *hash, const double *values, size_t count);

void sha256_finish(struct sha256 *hash, char text[SHA256_TEXT]);

/* The digest of one piece of data. */
void sha256_of(const void *data, size_t length, char text[SHA256_TEXT]);

#endif
