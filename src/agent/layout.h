/* The memory that a watched process shares with the recorder: one region (a memfd)
 * a process, laid out here and nowhere else.
 *
 * The agent creates the region, fills in the header, and hands the memfd to the
 * recorder's socket in one message (struct lw_agent_hello, fd by SCM_RIGHTS); then it
 * closes both, so a watched program holds no descriptor of ours. From then on they talk
 * only through this memory: nobody waits, nobody is woken. When the process dies, at
 * any moment, the recorder still has the mapping, so nothing that was stored is lost.
 *
 *     +------------------+ 0
 *     | header           |  who, clock, where the parts are, counters of losses
 *     +------------------+ threads_offset
 *     | thread slots     |  thread_slots * 256 bytes: where each thread is right now
 *     +------------------+ blocks_offset
 *     | block owners     |  one u32 a block of nodes: 0 unused, else thread slot + 1
 *     +------------------+ nodes_offset
 *     | nodes            |  calling-context trees, 32 bytes a node
 *     +------------------+ names_offset
 *     | names            |  an append-only log: function and mark names by number
 *     +------------------+ rings_offset
 *     | rings            |  one a thread slot: spans, marks, counter values
 *     +------------------+ region_bytes
 *
 * The file is sparse: only what was touched takes memory. All sizes are fixed when the
 * region is made; what does not fit is counted in `lost`, by cause. Neither side maps
 * all of it: nodes, names and rings are mapped piece by piece as they come into use, so
 * each of these parts, and each ring, begins at a multiple of LW_AGENT_ALIGN.
 *
 * Trust: the recorder treats all of it as input. It checks the header against the
 * file's size once, keeps its own copy, and bounds every index it reads. The agent
 * believes nothing here either, for whoever got the descriptor may write: what it goes by
 * (places, indices, sizes) it keeps in memory of its own (agent/region.h), and what it
 * reads here are numbers that it only adds to or passes on. Sealing keeps the file from
 * being cut off under both.
 *
 * Order: a writer fills a thing in and then makes it visible with one release store
 * (a node by `function`, a name by `names_used`, a record by the ring's `head`).
 * Integers are native (both sides run on one machine); the ones that change while the
 * other side reads are _Atomic and at most 64 bits. */
#ifndef LW_AGENT_LAYOUT_H
#define LW_AGENT_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

/* No machine that this runs on has larger pages. */
#define LW_AGENT_ALIGN 65536u

#define LW_AGENT_MAGIC 0x31474e4957504c4cull /* "LLPWING1" in memory order */
#define LW_AGENT_VERSION 1                   /* of a hello */
#define LW_REGION_VERSION 2                  /* of a region */

/* The environment variable through which `lapwing run` reaches the agent. Its value is
 * comma-separated key=value: socket=PATH first, then calls=python|c|off,
 * timeline=0|1, min_span_ns=N, sample=0|1, steps=0|1, ops=off|windows|all, torch=WORDS
 * (parted by semicolons: cmd/torch_windows.h; read by the agent's Python side). */
#define LW_AGENT_VARIABLE "LAPWING_AGENT"

/* The folder of the agent stands on PYTHONPATH, and what stands behind its name says what
 * the program's own value is, so that it can be told whatever a launcher makes of the
 * variable: "FOLDER" where it has none, "FOLDER/." where it is empty, "FOLDER/:a:b"
 * where it is a:b. In "src:FOLDER", which a shell made of "src:$PYTHONPATH", the program is
 * to see "src:", as without us. Python makes the same entry of sys.path of all three. */
#define LW_AGENT_PATH_FOLLOWED "/"
#define LW_AGENT_PATH_EMPTY "/."

/* Beside the socket, a link to the run's folder: where torch, asked by the agent's
 * Python side, writes the traces of its windows (lap/traces.h). A second link "leads" to
 * DEVICE:INODE of that folder, so that one put in its place is not taken for it. Gone when
 * the recorder is. */
#define LW_AGENT_RUN_LINK "run"
#define LW_AGENT_RUN_IDENTITY "run-id"

/* Beside the socket too: "order-4711", what process 4711 is to do between two steps of its
 * training, put there by who wants it done (recorder/window_order.h). The agent takes it
 * when the header's `orders` has changed. */
#define LW_AGENT_ORDER "order-"

/* A file beside the socket, with a byte for each process that the recorder could not take
 * when it started, because it was stopped or too many had come at once. (Of forked ones
 * their parent's region knows: LW_LOST_FORKS.) */
#define LW_AGENT_MISSED "missed"

/* Which of torch's ops are recorded. */
enum lw_agent_ops {
    LW_OPS_OFF = 0,
    LW_OPS_WINDOWS = 1, /* those of whole steps now and then */
    LW_OPS_ALL = 2,
};

enum lw_agent_loss {
    LW_LOST_NODES = 0,     /* calls folded under "(more)": the tree was full */
    LW_LOST_FUNCTIONS = 1, /* functions without a name: the table was full */
    LW_LOST_THREADS = 2,   /* threads not recorded: no slot was free */
    LW_LOST_RECORDS = 3,   /* spans and marks dropped: the ring was full */
    LW_LOST_MISMATCH = 4,  /* returns that fit no call (greenlets, foreign hooks) */
    LW_LOST_HOOKED = 5,    /* times the program's own profile function shut ours out */
    LW_LOST_NAMES = 6,     /* names dropped: the name log was full */
    LW_LOST_ROOM = 7,      /* spans and marks dropped: the ring could not be mapped */
    LW_LOST_FORKS = 8,     /* forked processes that could not be recorded */
    LW_LOST_TOOLS = 9,     /* times the program had all tool ids of sys.monitoring */
    LW_LOST_DEEP = 10, /* times a deep recursion ran under its own profile function */
    LW_LOST_GETITEM = 11, /* as LW_LOST_HOOKED, of a[i] on early 3.11 */
    LW_LOSS_COUNT = 16,   /* room to grow without a new version */
};

enum lw_agent_clock {
    LW_CLOCK_MONOTONIC_NS = 0, /* a tick is a nanosecond of CLOCK_MONOTONIC */
    LW_CLOCK_TSC = 1,          /* a tick is a tick of the invariant TSC */
};

struct lw_agent_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct lw_agent_header) of the writer */
    uint64_t region_bytes;

    uint64_t threads_offset;
    uint32_t thread_slots;
    uint32_t thread_bytes; /* sizeof(struct lw_agent_thread) */
    uint64_t blocks_offset;
    uint32_t block_count;
    uint32_t block_nodes; /* nodes in a block */
    uint64_t nodes_offset;
    uint64_t names_offset;
    uint64_t names_bytes;
    uint64_t rings_offset;
    uint64_t ring_bytes;   /* from the start of one ring to the next */
    uint64_t ring_records; /* that fit into one; a power of two */

    uint32_t clock;       /* enum lw_agent_clock */
    uint32_t flags;       /* LW_AGENT_* below */
    uint64_t start_ticks; /* the same moment on both clocks, when the region was made */
    uint64_t start_ns;
    uint64_t pid;
    uint64_t parent_pid;

    _Atomic uint32_t blocks_used;
    _Atomic uint32_t state;      /* enum lw_agent_state */
    _Atomic uint64_t names_used; /* bytes of whole records in the name log */
    _Atomic uint64_t lost[LW_LOSS_COUNT];

    _Atomic uint32_t recorder_reads; /* the recorder adds one a pass over the region */
    _Atomic uint32_t orders;         /* and here one for each order (LW_AGENT_ORDER) */
    uint32_t reserved[6];
};

#define LW_AGENT_CALLS 1u    /* exact Python calls are recorded */
#define LW_AGENT_C_CALLS 2u  /* and calls of builtins */
#define LW_AGENT_TIMELINE 4u /* each call is a span as well */
#define LW_AGENT_FORKED 8u   /* made by fork() from a watched process */
#define LW_AGENT_OPS 16u     /* torch's ops may come, a step of them at a time */
#define LW_AGENT_ALL_OPS 32u /* or without end */

enum lw_agent_state {
    LW_AGENT_RUNNING = 1,
    LW_AGENT_FINISHED = 2, /* the program ended the recording itself (API) */
};

/* Where one thread is. What passed since last_ticks belongs to `current`, which is how
 * the time of a call that is still running is known. */
struct lw_agent_thread {
    _Atomic uint64_t last_ticks; /* time of the last event */
    _Atomic uint32_t current;    /* node; `root`: in no recorded function */
    uint32_t root;               /* the thread's first node */
    _Atomic uint32_t state;      /* enum lw_agent_thread_state */
    _Atomic uint32_t generation; /* grows when the slot gets a new thread */
    uint64_t reserved0[2];
    uint64_t tid;
    uint64_t start_ticks;
    _Atomic uint64_t end_ticks; /* 0: lives */
    _Atomic uint32_t name_len;
    char name[92]; /* Python's name of it; set before name_len */
    uint64_t reserved[12];
};

/* free -> live (agent) -> ended (agent, when the thread exits) -> read (recorder, after
 * its last look) -> live again with a larger generation. A new thread gets the first slot
 * that is free or read: none is in use after one that never was. A slot keeps its nodes
 * and their counts, so a new thread's share is what was added since the recorder's last
 * look at the old one. */
enum lw_agent_thread_state {
    LW_THREAD_FREE = 0,
    LW_THREAD_LIVE = 1,
    LW_THREAD_ENDED = 2,
    LW_THREAD_READ = 3,
};

/* A node is a function as called from its parent's path. Nodes of a block belong to
 * the thread that owns the block; number = block * block_nodes + place. Node 0 of the
 * region is never used. */
struct lw_agent_node {
    _Atomic uint32_t function; /* 0: unused; else a number of the name log or below */
    uint32_t parent;           /* node; itself: the thread's root */
    uint64_t reserved;
    _Atomic uint64_t calls;
    _Atomic uint64_t self_ticks;
};

#define LW_FUNCTION_ROOT 0xffffffffu    /* a thread's root node */
#define LW_FUNCTION_MORE 0xfffffffeu    /* "(more)": children are flat, by function */
#define LW_FUNCTION_UNKNOWN 0xfffffffdu /* the function table was full */

enum lw_agent_name_kind {
    LW_NAME_PYTHON = 0,
    LW_NAME_C = 1,
    LW_NAME_MARK = 2, /* a range the program announced */
    LW_NAME_COUNTER = 3,
    LW_NAME_OP = 4,    /* of torch's */
    LW_NAME_PHASE = 5, /* "forward"; its file is the class of whom it was asked */
};

/* One record of the name log, 8-byte aligned; FILE_LEN then NAME_LEN bytes follow.
 * Numbers start at 1, grow by one a record and are shared by functions and marks. */
struct lw_agent_name {
    uint32_t record_bytes; /* this header, the text, and padding to 8 */
    uint32_t number;
    uint32_t first_line;
    uint16_t kind;    /* enum lw_agent_name_kind */
    uint16_t variant; /* which of several functions that print alike */
    uint32_t file_len;
    uint32_t name_len;
};

/* One producer (the thread), one consumer (the recorder). head and tail count records
 * since the beginning; record n lies at n modulo ring_records. */
struct lw_agent_ring {
    _Atomic uint64_t head; /* agent writes */
    uint64_t reserved[3];
    _Atomic uint64_t tail; /* recorder writes */
    uint64_t reserved2[3];
};

struct lw_agent_record {
    uint32_t kind; /* enum lw_agent_record_kind */
    uint32_t id;   /* SPAN: node; MARK and COUNTER: number of the name log; FORWARD and
                       BACKWARD: of the function whose line asked for it, 0: not known */
    uint64_t
        ticks; /* SPAN and MARK: start; COUNTER: when; FORWARD and BACKWARD: start of
                       the op, which is a MARK of this ring */
    uint64_t
        value; /* SPAN and MARK: duration in ticks; COUNTER: a double's bits; FORWARD
                       and BACKWARD: torch's sequence number and that line, see below */
    uint32_t node; /* MARK: the node in which it ran; FORWARD and BACKWARD: torch's
                       number of the thread that the forward op ran in */
    uint32_t generation; /* of the thread slot, so that a reused slot cannot mix */
};

/* An op of a forward pass and the node of the backward pass that came of it have the
 * same sequence number. Of several ops of a thread that have it, the one that began last
 * made the node. */
enum lw_agent_record_kind {
    LW_RECORD_SPAN = 1,
    LW_RECORD_MARK = 2,
    LW_RECORD_COUNTER = 3,
    LW_RECORD_FORWARD = 4,
    LW_RECORD_BACKWARD = 5,
};

#define LW_ORIGIN_LINE_BITS 24 /* of a record's value, the lowest; 0: not known */

/* The descriptors that come with a hello, in this order; the last may be missing. */
enum lw_hello_fd {
    LW_HELLO_FD_REGION = 0,
    LW_HELLO_FD_MEMORY = 1, /* /proc/self/mem, where the recorder samples: it may be
                             * read though the process itself may not (Yama,
                             * containers, seccomp) */
    LW_HELLO_FDS = 2,
};

/* The one message on the socket (SOCK_SEQPACKET). Behind it: executable, python
 * version text, arguments (each NUL-terminated), cut at LW_HELLO_TEXT_BYTES. A process
 * that cannot be recorded (an old Python) sends kind REFUSED, no descriptor, and the
 * sentence as text. */
#define LW_HELLO_TEXT_BYTES 16384

struct lw_agent_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t kind; /* enum lw_hello_kind */
    uint32_t text_bytes;
    uint32_t argument_count; /* of all arguments, also those cut */
};

enum lw_hello_kind {
    LW_HELLO_REGION = 1,
    LW_HELLO_REFUSED = 2,
    LW_HELLO_NOTE = 3,  /* a sentence for the report, no descriptor */
    LW_HELLO_ORDER = 4, /* not from an agent, but for one: the text is its pid */
};

_Static_assert(sizeof(struct lw_agent_node) == 32, "two nodes a cache line");
_Static_assert(sizeof(struct lw_agent_record) == 32,
               "the ring's capacity counts on it");
_Static_assert(sizeof(struct lw_agent_thread) == 256, "slots do not share cache lines");
_Static_assert(sizeof(struct lw_agent_ring) == 64, "records follow at 64");

#endif
