#include "sha256.h"

#include <stdio.h>
#include <string.h>

#include "bits.h"

static const uint32_t ROUND_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t word, int by) { return (word >> by) | (word << (32 - by)); }

/* The message schedule: 16 words of the block, big-endian, then 48 that are mixed from earlier ones. */
static void expand(const unsigned char block[64], uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               (uint32_t)block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64], s[8];
    expand(block, w);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t sum1 = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t first = s[7] + sum1 + choice + ROUND_CONSTANTS[i] + w[i];
        uint32_t sum0 = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += first;
        s[0] = first + sum0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void sha256_start(struct sha256 *hash)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->length = 0;
}

void sha256_bytes(struct sha256 *hash, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) {
        hash->block[hash->length % 64] = bytes[i];
        hash->length++;
        if (hash->length % 64 == 0)
            compress(hash->state, hash->block);
    }
}

void sha256_doubles(struct sha256 *hash, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[8];
        uint64_t bits = bits_of(values[i]);
        for (int byte = 0; byte < 8; byte++)
            bytes[byte] = (unsigned char)(bits >> (8 * byte));
        sha256_bytes(hash, bytes, sizeof bytes);
    }
}

void sha256_finish(struct sha256 *hash, char text[SHA256_TEXT])
{
    uint64_t bits = 8 * hash->length;
    sha256_bytes(hash, "\x80", 1);
    while (hash->length % 64 != 56)
        sha256_bytes(hash, "", 1); /* one zero byte */
    for (int shift = 56; shift >= 0; shift -= 8) {
        unsigned char byte = (unsigned char)(bits >> shift);
        sha256_bytes(hash, &byte, 1);
    }
    size_t end = (size_t)sprintf(text, "sha256:");
    for (int i = 0; i < 8; i++)
        end += (size_t)sprintf(text + end, "%08lx", (unsigned long)hash->state[i]);
}

void sha256_of(const void *data, size_t length, char text[SHA256_TEXT])
{
    struct sha256 hash;
    sha256_start(&hash);
    sha256_bytes(&hash, data, length);
    sha256_finish(&hash, text);
}
