/* What is said of a collective, by a profiler's words: of what kind it is, between whom,
 * and how many bytes it moves. */
#ifndef LW_ANALYSES_COLLECTIVE_NAMES_H
#define LW_ANALYSES_COLLECTIVE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lw_collective_kind {
    LW_COLLECTIVE_OTHER, /* its name says what */
    LW_COLLECTIVE_ALL_REDUCE,
    LW_COLLECTIVE_ALL_GATHER,
    LW_COLLECTIVE_REDUCE_SCATTER,
    LW_COLLECTIVE_ALL_TO_ALL,
    LW_COLLECTIVE_BROADCAST,
    LW_COLLECTIVE_REDUCE,
    LW_COLLECTIVE_GATHER,
    LW_COLLECTIVE_SCATTER,
    LW_COLLECTIVE_BARRIER,
    LW_COLLECTIVE_SEND_RECV, /* from one rank to one other */
};

/* "all_reduce"; NULL for LW_COLLECTIVE_OTHER. */
const char *lw_collective_kind_name(enum lw_collective_kind kind);
/* Can nobody leave before the last has come? Then it ends for all at once, and the one
 * with the least time came last. */
bool lw_collective_kind_waits(enum lw_collective_kind kind);

/* Of "allreduce", "_allgather_base", "nccl:all_to_all", or the name of a kernel. */
enum lw_collective_kind lw_collective_kind_of(const char *name);

/* Is NAME that of a range in which a library is called: "nccl:all_reduce"? And is that
 * library one that works on the host, so that the range is all there is to see? */
bool lw_collective_is_range(const char *name);
bool lw_collective_is_host_range(const char *name);

/* Who sends to whom in "nccl:send 0->1" and "nccl:recv 1<-0", by their numbers in the
 * group. False: it does not say. */
bool lw_collective_pair(const char *name, int64_t *source, int64_t *sink);

/* Bytes of an element of TYPE, as torch ("Float", "c10::BFloat16") or C ("long int") call
 * it; 0: not known. */
typedef int64_t lw_element_bytes(const char *type, size_t len);
lw_element_bytes lw_collective_element_bytes;

/* COUNT elements of SIZE bytes; -1 if either is not known, or that is no number. */
int64_t lw_collective_bytes(int64_t count, int64_t size);

/* All bytes of the tensors with SHAPES ("[[64,3],[]]") of TYPES ("[\"float\",\"\"]"), the
 * elements being as large as SIZE_OF says; what has no type it knows is left out. -1:
 * nothing is known. */
int64_t lw_collective_tensor_bytes(const char *shapes, const char *types,
                                   lw_element_bytes *size_of);

#endif
