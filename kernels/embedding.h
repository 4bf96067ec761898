// Parameters of embedding.cu. Rows lie `…_row` elements apart.
#pragma once

#include "types.h"

constexpr int embedding_tile = 1024;    // ids that one block sorts
constexpr int embedding_threads = 256;  // of the sorting kernels: one for each digit
constexpr int embedding_digit_bits = 8;
constexpr int embedding_chunk = 32;  // rows of the sorted list that one block sums

struct EmbeddingForwardParams {
  const uint32_t* ids;  // [N]
  const void* table;    // [V, C]
  void* y;              // [N, C]
  int64_t table_row, y_row;
  int64_t rows, vocab, dim;
};

/// One pass of the sort, by eight bits of the key.
struct EmbeddingSortParams {
  const uint32_t* keys;        // [N]; the ids in the first pass
  const uint32_t* positions;   // [N]; null in the first pass: 0, 1, 2 …
  uint32_t* sorted_keys;       // [N]
  uint32_t* sorted_positions;  // [N]
  uint32_t* histogram;  // [256, tiles]: how many keys of a tile have a digit; then, those in tiles before
  uint32_t* totals;     // [256]
  int64_t rows, tiles;
  uint32_t vocab;  // keys past it become it: they sort last and are left out of the sums
  int32_t shift;
};

struct EmbeddingSumParams {
  const uint32_t* keys;       // [N] ascending
  const uint32_t* positions;  // [N] ascending where keys are equal
  const void* dy;             // [N, C]
  float* d_table;             // [V, C]
  float* partials;            // [chunks, 2, C]: the sums of ids that cross a chunk's first and last edge
  int64_t dy_row, table_row;
  int64_t rows, vocab, dim;
  int32_t accumulate;
  int32_t vectors;  // nonzero: every row allows 16-byte accesses
};
