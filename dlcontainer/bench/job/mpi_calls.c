/* The calls of MPI that a process makes, for `bench trace`: preloaded, MPI_X before PMPI_X.
 *
 * Built where the ranks run, by their own mpicc; linked to no MPI, so that sh or python start with
 * it as without. All of MPI is looked up as it is called. A process leaves NAME.mpi in
 * $DLCONTAINER_MPI_TRACE: a line of JSON, then records of 64 bytes (struct record), written in
 * blocks, at the latest a second of calls apart, and at MPI_Finalize, MPI_Abort or exit.
 *
 * No program fails for its trace: what can't be written is left out, and an MPI of another family
 * than the one of the compiler gets its calls as they came. Arguments are held as words of the
 * machine for that: on 64-bit Linux each of them is one, whatever handles are.
 *
 * Not seen: bindings of Fortran that don't call C's, one-sided communication, sessions.
 */
#ifndef COUNT
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

typedef uintptr_t W;

/* Each of these has a sister MPI_X_c with wider counts, which mpi4py calls where there is one. */
#define COUNTS(X)                                                                                  \
    X(Send) X(Bsend) X(Ssend) X(Rsend) X(Isend) X(Ibsend) X(Issend) X(Irsend)                      \
    X(Recv) X(Irecv) X(Sendrecv) X(Sendrecv_replace) X(Send_init) X(Ssend_init) X(Recv_init)       \
    X(Bcast) X(Reduce) X(Allreduce) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan) X(Exscan)    \
    X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall)             \
    X(Alltoallv) X(Ibcast) X(Iallreduce) X(Ireduce) X(Iallgather) X(Ialltoall)                     \
    X(File_read) X(File_write) X(File_read_all) X(File_write_all)                                  \
    X(File_read_at) X(File_write_at) X(File_read_at_all) X(File_write_at_all)
#define OTHERS(X)                                                                                  \
    X(Init) X(Init_thread) X(Finalize) X(Abort) X(Probe) X(Iprobe)                                 \
    X(Start) X(Startall) X(Request_free)                                                           \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) X(Testsome)            \
    X(Barrier) X(Ibarrier)                                                                         \
    X(Comm_dup) X(Comm_dup_with_info) X(Comm_split) X(Comm_split_type) X(Comm_create)              \
    X(Comm_create_group) X(Dist_graph_create)                                                      \
    X(Cart_create) X(Cart_sub) X(Graph_create) X(Dist_graph_create_adjacent) X(Intercomm_create)   \
    X(Intercomm_merge) X(File_open) X(File_close) X(File_sync)

/* What is called itself, and not wrapped. */
#define HELPERS(X)                                                                                 \
    X(Get_library_version) X(Comm_rank) X(Comm_size) X(Comm_group) X(Comm_remote_group)            \
    X(Comm_test_inter) X(Group_size) X(Group_translate_ranks) X(Group_free) X(Type_size)           \
    X(Comm_create_keyval) X(Comm_set_attr) X(Comm_get_attr) X(Get_elements_x)

#define ID(name) K_##name,
#define WIDE_ID(name) K_##name##_c,
#define NAME(name) "MPI_" #name,
#define WIDE_NAME(name) "MPI_" #name "_c",
enum { OTHERS(ID) COUNTS(ID) COUNTS(WIDE_ID) HELPERS(ID) N_NAMES };
#define N_CALLS K_Get_library_version
static const char *const names[] = {OTHERS(NAME) COUNTS(NAME) COUNTS(WIDE_NAME) HELPERS(NAME)};

enum { CALL, COMM, RECEIVED, SENT, COLLECTED, SUM, END, POSTED };

struct record {
    /* Of CLOCK_MONOTONIC, ns. */
    uint64_t begin, end;
    /* Bytes that the rank puts in, and that it gets. */
    uint64_t out, in;
    /* Peer or root by its rank in MPI_COMM_WORLD, -1 where there is none. */
    int32_t peer, tag;
    /* A communicator as its record of COMM names it; which collective of it. */
    uint32_t comm, turn;
    uint16_t what, kind;
    uint32_t thread;
    /* Which send or receive of the process, in the order they were posted; calls of a poll. */
    uint32_t post, more;
};

#define BLOCK 4096
/* Of all ranks together: what a reader holds. */
#define MOST_EVENTS 1000000
#define FEWEST_EVENTS 2000
#define POLL_GAP_NS 100000
#define FLUSH_NS 1000000000ull

static struct {
    int file, pid, is_on;
    dev_t device;
    ino_t inode;
    uint64_t flushed, events, most, left_out;
    uint32_t held, comms, threads, posts;
    struct record block[BLOCK];
    struct { uint64_t calls, ns, out, in; } sums[N_CALLS];
} trace = {.file = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct {
    int depth;
    uint32_t thread;
    struct record poll;
} self;

/* ---- the MPI that is called -------------------------------------------------------------- */

static void *found[N_NAMES];

struct search { const char *name; void *symbol; };

static int look(struct dl_phdr_info *object, size_t size, void *of)
{
    struct search *search = of;
    (void)size;
    if (!object->dlpi_name || !strstr(object->dlpi_name, "mpi"))
        return 0;
    void *handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return 0;
    search->symbol = dlsym(handle, search->name);
    dlclose(handle);
    return search->symbol != NULL;
}

/* Of a variable the program may have the copy that counts, so it comes first. The MPI of a module
 * (mpi4py) was loaded for that module alone. */
static void *symbol(const char *name)
{
    struct search search = {name, dlsym(RTLD_DEFAULT, name)};
    if (!search.symbol)
        dl_iterate_phdr(look, &search);
    return search.symbol;
}

static W no_mpi(void) { return 15; /* MPI_ERR_OTHER, or near it: there is nothing to call */ }

static void *real(int id)
{
    void *function = __atomic_load_n(&found[id], __ATOMIC_ACQUIRE);
    if (!function) {
        char name[64] = "P";
        strcat(name, names[id]);
        function = symbol(name);
        char *wide = strstr(name, "_c");
        if (!function && wide && !wide[2]) {
            /* Of an MPI without wider counts: a count that fits is the same word. Arrays of counts
             * are not, and stay refused. */
            *wide = 0;
            int has_array = strpbrk(name + 4, "v") || strstr(name, "Reduce_scatter");
            function = has_array ? NULL : symbol(name);
        }
        if (!function)
            return (void *)no_mpi;
        __atomic_store_n(&found[id], function, __ATOMIC_RELEASE);
    }
    return function;
}

#define R0(id) ((W(*)(void))real(id))()
#define R1(id, a) ((W(*)(W))real(id))((W)(a))
#define R2(id, a, b) ((W(*)(W, W))real(id))((W)(a), (W)(b))
#define R3(id, a, b, c) ((W(*)(W, W, W))real(id))((W)(a), (W)(b), (W)(c))
#define R4(id, a, b, c, d) ((W(*)(W, W, W, W))real(id))((W)(a), (W)(b), (W)(c), (W)(d))
#define R5(id, a, b, c, d, e)                                                                      \
    ((W(*)(W, W, W, W, W))real(id))((W)(a), (W)(b), (W)(c), (W)(d), (W)(e))
#define R6(id, a, b, c, d, e, f)                                                                   \
    ((W(*)(W, W, W, W, W, W))real(id))((W)(a), (W)(b), (W)(c), (W)(d), (W)(e), (W)(f))
#define R7(id, a, b, c, d, e, f, g)                                                                \
    ((W(*)(W, W, W, W, W, W, W))real(id))((W)(a), (W)(b), (W)(c), (W)(d), (W)(e), (W)(f), (W)(g))
#define R8(id, a, b, c, d, e, f, g, h)                                                             \
    ((W(*)(W, W, W, W, W, W, W, W))real(id))(                                                      \
        (W)(a), (W)(b), (W)(c), (W)(d), (W)(e), (W)(f), (W)(g), (W)(h))
#define R9(id, a, b, c, d, e, f, g, h, i)                                                          \
    ((W(*)(W, W, W, W, W, W, W, W, W))real(id))(                                                   \
        (W)(a), (W)(b), (W)(c), (W)(d), (W)(e), (W)(f), (W)(g), (W)(h), (W)(i))
#define R10(id, a, b, c, d, e, f, g, h, i, j)                                                      \
    ((W(*)(W, W, W, W, W, W, W, W, W, W))real(id))(                                                \
        (W)(a), (W)(b), (W)(c), (W)(d), (W)(e), (W)(f), (W)(g), (W)(h), (W)(i), (W)(j))
#define R12(id, a, b, c, d, e, f, g, h, i, j, k, l)                                                \
    ((W(*)(W, W, W, W, W, W, W, W, W, W, W, W))real(id))((W)(a), (W)(b), (W)(c), (W)(d), (W)(e),   \
        (W)(f), (W)(g), (W)(h), (W)(i), (W)(j), (W)(k), (W)(l))

/* Handles that Open MPI has as addresses of the library, which this file is not linked to. */
#ifdef OPEN_MPI
#define FAMILY "Open MPI"
static W handle(const char *name, W *kept)
{
    if (!*kept)
        *kept = (W)symbol(name);
    return *kept;
}
static W kept_world, kept_null, kept_request, kept_none, kept_byte;
#define WORLD handle("ompi_mpi_comm_world", &kept_world)
#define TYPE_NULL handle("ompi_mpi_datatype_null", &kept_null)
#define REQUEST_NONE handle("ompi_request_null", &kept_request)
#define COMM_NONE handle("ompi_mpi_comm_null", &kept_none)
#define BYTE handle("ompi_mpi_byte", &kept_byte)
#else
#define FAMILY "MPICH"
#define WORLD ((W)MPI_COMM_WORLD)
#define TYPE_NULL ((W)MPI_DATATYPE_NULL)
#define REQUEST_NONE ((W)MPI_REQUEST_NULL)
#define COMM_NONE ((W)MPI_COMM_NULL)
#define BYTE ((W)MPI_BYTE)
#endif

static int is_ours(const char *version)
{
    Dl_info of;
    if (dladdr(real(K_Get_library_version), &of) && of.dli_fname) {
        const char *slash = strrchr(of.dli_fname, '/');
        /* The ABI of the standard: handles of a third kind, by a library that says MPICH. */
        if (strstr(slash ? slash : of.dli_fname, "mpi_abi"))
            return 0;
    }
#ifdef OPEN_MPI
    return strstr(version, "Open MPI") != NULL;
#else
    return strstr(version, "MPICH") || strstr(version, "Intel(R) MPI") ||
        strstr(version, "MVAPICH");
#endif
}

/* ---- the file ---------------------------------------------------------------------------- */

static uint64_t now_of(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000ull + (uint64_t)at.tv_nsec;
}

static uint64_t now(void) { return now_of(CLOCK_MONOTONIC); }

/* Beyond a limit of the size of files a signal would end the program. */
static int put(const void *from, size_t size)
{
    sigset_t limit, before;
    const struct timespec none = {0, 0};
    const char *at = from;
    struct stat is;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    /* A program that closes what it did not open may have another file of this number. */
    if (fstat(trace.file, &is) || is.st_dev != trace.device || is.st_ino != trace.inode ||
        pthread_sigmask(SIG_BLOCK, &limit, &before))
        return 0;
    while (size) {
        ssize_t wrote = write(trace.file, at, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            if (errno == EFBIG && !sigismember(&before, SIGXFSZ))
                sigtimedwait(&limit, NULL, &none);
            break;
        }
        at += wrote;
        size -= (size_t)wrote;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return size == 0;
}

static void shut(void)
{
    struct stat is;
    if (trace.file >= 0 && !fstat(trace.file, &is) && is.st_ino == trace.inode)
        close(trace.file);
    trace.file = -1;
}

static void flush(void)
{
    int before = errno;
    if (trace.file >= 0 && trace.held && !put(trace.block, trace.held * sizeof(struct record)))
        shut();
    errno = before;
    trace.held = 0;
    trace.flushed = now();
}

static void hold(const struct record *record)
{
    trace.block[trace.held++] = *record;
    if (trace.held == BLOCK)
        flush();
}

static void keep(const struct record *record)
{
    pthread_mutex_lock(&lock);
    if (record->what == CALL) {
        trace.sums[record->kind].calls += record->more ? record->more : 1;
        trace.sums[record->kind].ns += record->end - record->begin;
        trace.sums[record->kind].out += record->out;
        trace.sums[record->kind].in += record->in;
    }
    if (trace.events < trace.most || record->what == COMM) {
        trace.events++;
        hold(record);
        if (record->end > trace.flushed + FLUSH_NS)
            flush();
    } else {
        trace.left_out += record->what == CALL;
    }
    pthread_mutex_unlock(&lock);
}

static void keep_poll(void)
{
    if (self.poll.more)
        keep(&self.poll);
    self.poll.more = 0;
}

static void finish(uint16_t how)
{
    if (!trace.is_on || trace.pid != getpid())
        return;
    keep_poll();
    pthread_mutex_lock(&lock);
    trace.is_on = 0;
    for (uint16_t kind = 0; kind < N_CALLS; kind++) {
        struct record sum = {.what = SUM, .kind = kind, .begin = trace.sums[kind].calls,
            .end = trace.sums[kind].ns, .out = trace.sums[kind].out, .in = trace.sums[kind].in};
        if (sum.begin)
            hold(&sum);
    }
    struct record end = {.what = END, .kind = how, .begin = now(), .out = trace.left_out};
    hold(&end);
    flush();
    shut();
    pthread_mutex_unlock(&lock);
}

static void at_exit(void) { finish(1); }

static char *quoted(char *to, const char *from, size_t most)
{
    for (*to++ = '"'; *from && most; from++, most--) {
        unsigned char c = (unsigned char)*from;
        *to++ = c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? '?' : (char)c;
    }
    *to++ = '"';
    *to = 0;
    return to;
}

static char *key(char *to, const char *name, const char *value, size_t most)
{
    to += sprintf(to, ", \"%s\": ", name);
    return quoted(to, value ? value : "", most);
}

static void first_line(const char *path, char *to, size_t most)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, to, most - 1);
    to[size > 0 ? size : 0] = 0;
    to[strcspn(to, "\n")] = 0;
    if (file >= 0)
        close(file);
}

/* Hydra numbers no launch; each of its proxies was told the one port of its mpiexec. */
static int hydra(char *to, size_t most)
{
    char path[64], text[4096], *at;
    long parent = getppid();
    for (int level = 0; level < 8 && parent > 1; level++) {
        snprintf(path, sizeof path, "/proc/%ld/cmdline", parent);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
        if (file >= 0)
            close(file);
        text[size > 0 ? size : 0] = 0;
        if (strstr(text, "hydra_pmi_proxy"))
            for (at = text; at < text + size; at += strlen(at) + 1)
                if (!strcmp(at, "--control-port") && at + 15 < text + size) {
                    snprintf(to, most, "hydra=%s", at + 15);
                    return 1;
                }
        snprintf(path, sizeof path, "/proc/%ld/stat", parent);
        first_line(path, text, sizeof text);
        at = strrchr(text, ')');
        if (!at || sscanf(at + 1, " %*c %ld", &parent) != 1)
            break;
    }
    return 0;
}

/* What all ranks of one MPI_COMM_WORLD share, by the launcher that is nearest to them. */
static const char *launch(char *to, size_t most)
{
    static const char *const of[] = {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID",
                                     "PALS_APID"};
    const char *step = getenv("SLURM_STEP_ID"), *job = getenv("SLURM_JOB_ID");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (getenv(of[i]) && *getenv(of[i])) {
            snprintf(to, most, "%s=%s", of[i], getenv(of[i]));
            return to;
        }
    /* Hydra's own ranks may stand below a step of Slurm's. */
    if (getenv("HYDI_CONTROL_FD"))
        return hydra(to, most) ? to : "";
    if (step && job) {
        snprintf(to, most, "SLURM=%s.%s", job, step);
        return to;
    }
    return "";
}

static void begin_file(int rank, int ranks, const char *version, const char *reason)
{
    const char *folder = getenv("DLCONTAINER_MPI_TRACE"), *place = getenv("RANK");
    char path[4096], line[16384], text[600], *at = line;
    struct utsname system;
    struct stat is;
    if (!folder || uname(&system))
        return;
    int size = snprintf(path, sizeof path, "%s/%s-%d-%llu.mpi", folder, system.nodename, getpid(),
        (unsigned long long)now());
    if (size < 0 || (size_t)size >= sizeof path)
        return;
    trace.file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    trace.pid = getpid();
    const char *node = getenv("SLURMD_NODENAME");
    at += sprintf(at, "{\"schema\": \"dlcontainer/mpi-calls/1\", \"rank\": %d, \"ranks\": %d, "
        "\"pid\": %d, \"at_ns\": %llu, \"mono_ns\": %llu", rank, ranks, trace.pid,
        (unsigned long long)now_of(CLOCK_REALTIME), (unsigned long long)now());
    at = key(at, "node", node && *node ? node : system.nodename, 200);
    first_line("/proc/sys/kernel/random/boot_id", text, sizeof text);
    at = key(at, "boot", text, 100);
    first_line("/proc/self/comm", text, sizeof text);
    at = key(at, "program", text, 100);
    at = key(at, "library", version, 120);
    at = key(at, "built", FAMILY, 40);
    at = key(at, "launch", launch(text, sizeof text), 300);
    at = key(at, "place", place, 20);
    at = key(at, "reason", reason, 200);
    at += sprintf(at, ", \"kinds\": [");
    for (int kind = 0; kind < N_CALLS; kind++)
        at += sprintf(at, "%s\"%s\"", kind ? ", " : "", names[kind]);
    at += sprintf(at, "]}\n");
    if (trace.file < 0 || fstat(trace.file, &is))
        return;
    trace.device = is.st_dev;
    trace.inode = is.st_ino;
    if (!put(line, (size_t)(at - line)))
        shut();
}

/* ---- communicators ----------------------------------------------------------------------- */

struct comm { uint32_t index, turn, users; int size, rank, *world; };
static struct { uint64_t members; uint32_t seen; } *groups;
static size_t groups_held;
static int keyval;
static MPI_Group world_group;

static void release(struct comm *of)
{
    if (of && __atomic_sub_fetch(&of->users, 1, __ATOMIC_ACQ_REL) == 0) {
        free(of->world);
        free(of);
    }
}

static int not_copied(W comm, int number, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)number, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

static int forget(W comm, int number, void *value, void *extra)
{
    (void)comm, (void)number, (void)extra;
    release(value);
    return MPI_SUCCESS;
}

/* The ranks in MPI_COMM_WORLD of a group, which is freed; NULL where memory is short. */
static int *in_world(MPI_Group group, int size)
{
    int *ranks = malloc(2 * (size_t)(size ? size : 1) * sizeof *ranks);
    for (int i = 0; ranks && i < size; i++)
        ranks[i] = i;
    if (ranks && R5(K_Group_translate_ranks, group, size, ranks, world_group, ranks + size)) {
        free(ranks);
        ranks = NULL;
    }
    for (int i = 0; ranks && i < size; i++)
        ranks[i] = ranks[size + i] >= 0 ? ranks[size + i] : -1;
    R1(K_Group_free, &group);
    return ranks;
}

static uint64_t hashed(const int *ranks, int size)
{
    uint64_t hash = 14695981039346656037ull;
    for (int i = 0; ranks && i < size; i++)
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ ((unsigned)ranks[i] >> 8 * byte & 255)) * 1099511628211ull;
    return hash;
}

/* How often a group was seen: all members make their communicators in the same order. */
static uint32_t turn_of(uint64_t members)
{
    for (size_t i = 0; i < groups_held; i++)
        if (groups[i].members == members)
            return groups[i].seen++;
    void *more = realloc(groups, (groups_held + 1) * sizeof *groups);
    if (!more)
        return 0;
    groups = more;
    groups[groups_held].members = members;
    groups[groups_held++].seen = 1;
    return 0;
}

static struct comm *registered(W handle)
{
    struct comm *of = NULL;
    int is_known = 0;
    return !R4(K_Comm_get_attr, handle, keyval, &of, &is_known) && is_known ? of : NULL;
}

static struct comm *new_comm(W handle)
{
    int inter = 0, size = 0;
    MPI_Group group, remote;
    struct comm *of = calloc(1, sizeof *of);
    if (!of)
        return NULL;
    R2(K_Comm_test_inter, handle, &inter);
    R2(K_Comm_rank, handle, &of->rank);
    R2(K_Comm_size, handle, &size);
    R2(K_Comm_group, handle, &group);
    of->size = size;
    of->users = 1;
    of->world = in_world(group, size);
    uint64_t members = hashed(of->world, size);
    if (inter) {
        free(of->world);
        R2(K_Comm_remote_group, handle, &remote);
        R2(K_Group_size, remote, &of->size);
        of->world = in_world(remote, of->size);
        members ^= hashed(of->world, of->size);
    }
    pthread_mutex_lock(&lock);
    of->index = trace.comms++;
    struct record record = {.what = COMM, .comm = of->index, .out = members,
        .in = turn_of(members), .peer = of->rank, .tag = size, .post = (uint32_t)inter};
    pthread_mutex_unlock(&lock);
    keep(&record);
    R3(K_Comm_set_attr, handle, keyval, of);
    return of;
}

/* Return what is known of a communicator; of two threads that use a new one, one makes it known. */
static struct comm *known(W handle)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct comm *of = registered(handle);
    if (of)
        return of;
    pthread_mutex_lock(&making);
    of = registered(handle);
    if (!of)
        of = new_comm(handle);
    pthread_mutex_unlock(&making);
    return of;
}

static int32_t world_rank(const struct comm *of, int rank)
{
    return of && of->world && rank >= 0 && rank < of->size ? of->world[rank] : -1;
}

/* ---- requests ---------------------------------------------------------------------------- */

struct pending {
    struct pending *next;
    W request;
    struct comm *comm;
    struct record record;
    int is_lasting, is_active;
};
#define BUCKETS 4096
static struct pending *buckets[BUCKETS];
static pthread_mutex_t requests = PTHREAD_MUTEX_INITIALIZER;

static struct pending **place(W request)
{
    uint64_t hash = (uint64_t)request * 11400714819323198485ull;
    struct pending **at = &buckets[hash >> 52];
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    return at;
}

/* A request that is no more the one it was: an MPI has one handle for all that are done at once. */
static void await(W request, struct comm *comm, const struct record *record, int is_lasting)
{
    if (request == REQUEST_NONE)
        return;
    pthread_mutex_lock(&requests);
    struct pending **at = place(request);
    if (!*at)
        *at = calloc(1, sizeof **at);
    else
        release((*at)->comm);
    if (*at) {
        if (comm)
            __atomic_add_fetch(&comm->users, 1, __ATOMIC_ACQ_REL);
        (*at)->request = request;
        (*at)->comm = comm;
        (*at)->record = *record;
        (*at)->is_lasting = is_lasting;
        (*at)->is_active = !is_lasting;
    }
    pthread_mutex_unlock(&requests);
}

/* Take a request that ends; 0 where it is not known. The caller releases its communicator. */
static int taken(W request, struct pending *to, int is_freed)
{
    if (request == REQUEST_NONE)
        return 0;
    pthread_mutex_lock(&requests);
    struct pending **at = place(request), *of = *at;
    int is_known = of && (of->is_active || is_freed);
    if (is_known) {
        *to = *of;
        if (of->is_lasting && !is_freed) {
            of->is_active = 0;
            if (of->comm)
                __atomic_add_fetch(&of->comm->users, 1, __ATOMIC_ACQ_REL);
        } else {
            *at = of->next;
            free(of);
        }
    }
    pthread_mutex_unlock(&requests);
    return is_known;
}

static uint64_t received(const MPI_Status *status)
{
    MPI_Count count = 0;
    if (R3(K_Get_elements_x, status, BYTE, &count) || count < 0)
        return 0;
    return (uint64_t)count;
}

static void complete(MPI_Request request, const MPI_Status *status, const struct record *within)
{
    struct pending of;
    if (!taken((W)request, &of, 0))
        return;
    struct record record = of.record;
    record.begin = within->begin;
    record.end = within->end;
    record.thread = within->thread;
    if (record.what == RECEIVED) {
        record.peer = world_rank(of.comm, status->MPI_SOURCE);
        record.tag = status->MPI_TAG;
        record.in = received(status);
    }
    keep(&record);
    release(of.comm);
}

/* ---- a call ------------------------------------------------------------------------------ */

static int enter(uint64_t *begin)
{
    if (!trace.is_on || self.depth)
        return 0;
    self.depth = 1;
    if (!self.thread)
        self.thread = __atomic_add_fetch(&trace.threads, 1, __ATOMIC_RELAXED);
    *begin = now();
    return 1;
}

static W left(W code)
{
    self.depth = 0;
    return code;
}

#define BEGIN(call)                                                                                \
    uint64_t begin;                                                                                \
    if (!enter(&begin))                                                                            \
        return call;                                                                               \
    W code = call;                                                                                 \
    struct record record = {.begin = begin, .end = now(), .peer = -1, .thread = self.thread};      \
    struct comm *in = NULL;                                                                        \
    (void)in;
#define EXPORT(name, ...)                                                                          \
    W traced_##name(__VA_ARGS__) __asm__("MPI_" #name) __attribute__((visibility("default")));     \
    W traced_##name(__VA_ARGS__)
#define OK ((int)code == MPI_SUCCESS)

static void kept(struct record *record, int kind)
{
    keep_poll();
    record->kind = (uint16_t)kind;
    keep(record);
}

static uint64_t bytes(int64_t count, W type)
{
    int size = 0;
    if (count <= 0 || (W)(MPI_Datatype)type == TYPE_NULL || R2(K_Type_size, type, &size))
        return 0;
    return (uint64_t)count * (uint64_t)(size < 0 ? 0 : size);
}

static uint64_t all_bytes(W counts, int is_wide, W type, const struct comm *of)
{
    int64_t sum = 0;
    for (int i = 0; of && i < of->size; i++)
        sum += is_wide ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
    return bytes(sum, type);
}

static void to_peer(struct record *record, struct comm *of, W peer, W tag)
{
    record->comm = of ? of->index : 0;
    record->peer = world_rank(of, (int)peer);
    record->tag = (int)tag;
    record->post = __atomic_add_fetch(&trace.posts, 1, __ATOMIC_RELAXED);
}

/* ---- begin and end ----------------------------------------------------------------------- */

static void began(int kind, uint64_t begin)
{
    static char version[16384];
    int length = 0, rank = -1, ranks = 0;
    R2(K_Get_library_version, version, &length);
    if (!is_ours(version)) {
        begin_file(-1, 0, version, "this MPI is of another family than the compiler's");
        shut();
        return;
    }
    R2(K_Comm_rank, WORLD, &rank);
    R2(K_Comm_size, WORLD, &ranks);
    if (R2(K_Comm_group, WORLD, &world_group) ||
        R4(K_Comm_create_keyval, not_copied, forget, &keyval, NULL))
        return;
    begin_file(rank, ranks, version, "");
    if (trace.file < 0)
        return;
    trace.most = MOST_EVENTS / (uint64_t)(ranks > 0 ? ranks : 1);
    if (trace.most < FEWEST_EVENTS)
        trace.most = FEWEST_EVENTS;
    trace.flushed = now();
    trace.is_on = 1;
    self.thread = trace.threads = 1;
    known(WORLD);
    struct record record = {.begin = begin, .end = now(), .peer = -1, .thread = self.thread};
    kept(&record, kind);
    atexit(at_exit);
}

EXPORT(Init, W count, W words)
{
    uint64_t begin = now();
    self.depth++;
    W code = R2(K_Init, count, words);
    if (--self.depth == 0 && OK)
        began(K_Init, begin);
    return code;
}

EXPORT(Init_thread, W count, W words, W required, W provided)
{
    uint64_t begin = now();
    self.depth++;
    W code = R4(K_Init_thread, count, words, required, provided);
    if (--self.depth == 0 && OK)
        began(K_Init_thread, begin);
    return code;
}

EXPORT(Finalize, void)
{
    BEGIN(R0(K_Finalize))
    kept(&record, K_Finalize);
    finish(0);
    return left(code);
}

EXPORT(Abort, W comm, W number)
{
    finish(2);
    return R2(K_Abort, comm, number);
}

/* ---- from one to another ----------------------------------------------------------------- */

#define GIVEN(status) ((MPI_Status *)(status))
#define STATUS(own, status) (GIVEN(status) == MPI_STATUS_IGNORE ? &(own) : GIVEN(status))

static void of_status(struct record *record, struct comm *of, const MPI_Status *status)
{
    to_peer(record, of, (W)status->MPI_SOURCE, (W)status->MPI_TAG);
    record->in = received(status);
}

static W exchanged(int kind, W code, struct record *record, struct comm *in, W to, W tag,
    const MPI_Status *status)
{
    struct record second = *record;
    if (OK)
        to_peer(record, in, to, tag);
    kept(record, kind);
    second.what = RECEIVED;
    second.kind = (uint16_t)kind;
    if (OK) {
        of_status(&second, in, status);
        keep(&second);
    }
    return left(code);
}

EXPORT(Probe, W from, W tag, W comm, W status)
{
    BEGIN(R4(K_Probe, from, tag, comm, status))
    kept(&record, K_Probe);
    return left(code);
}

/* Calls that say "not yet" are one, as long as nothing comes between them. */
static void polled(struct record *record, int kind, int is_done)
{
    record->kind = (uint16_t)kind;
    record->more = 1;
    if (self.poll.more && self.poll.kind == kind && record->begin < self.poll.end + POLL_GAP_NS) {
        record->begin = self.poll.begin;
        record->more += self.poll.more;
        self.poll.more = 0;
    }
    keep_poll();
    if (is_done)
        keep(record);
    else
        self.poll = *record;
}

EXPORT(Iprobe, W from, W tag, W comm, W flag, W status)
{
    BEGIN(R5(K_Iprobe, from, tag, comm, flag, status))
    polled(&record, K_Iprobe, !OK || *(int *)flag);
    return left(code);
}

/* ---- requests that end ------------------------------------------------------------------- */

struct several {
    MPI_Request *before, few[64];
    MPI_Status *statuses, own[64];
};

/* Remember requests before a call ends them; without memory for that they are not followed. */
static void remember(struct several *of, W count, W requests_, W statuses, int is_ignored)
{
    size_t n = (int)count > 0 ? (size_t)(int)count : 0;
    of->before = n <= 64 ? of->few : malloc(n * sizeof *of->before);
    of->statuses = !is_ignored ? (MPI_Status *)statuses
        : n <= 64 ? of->own : malloc(n * sizeof *of->statuses);
    if (of->before && !of->statuses) {
        free(of->before);
        of->before = NULL;
    }
    if (!of->statuses)
        of->statuses = (MPI_Status *)statuses;
    if (of->before && n)
        memcpy(of->before, (MPI_Request *)requests_, n * sizeof *of->before);
}

static void let_go(struct several *of, W statuses)
{
    if (of->before != of->few)
        free(of->before);
    if (of->statuses != of->own && of->statuses != (MPI_Status *)statuses)
        free(of->statuses);
}

EXPORT(Wait, W request, W status)
{
    MPI_Status own, *told = STATUS(own, status);
    MPI_Request before = *(MPI_Request *)request;
    BEGIN(R2(K_Wait, request, told))
    kept(&record, K_Wait);
    if (OK)
        complete(before, told, &record);
    return left(code);
}

EXPORT(Test, W request, W flag, W status)
{
    MPI_Status own, *told = STATUS(own, status);
    MPI_Request before = *(MPI_Request *)request;
    BEGIN(R3(K_Test, request, flag, told))
    polled(&record, K_Test, !OK || *(int *)flag);
    if (OK && *(int *)flag)
        complete(before, told, &record);
    return left(code);
}

#define EACH(count_, index, status)                                                                \
    for (int i = 0; OK && of.before && i < (count_); i++)                                          \
        complete(of.before[index], status, &record);
#define SEVERAL(ignored)                                                                           \
    struct several of;                                                                             \
    if (!trace.is_on || self.depth)                                                                \
        of.before = of.few, of.statuses = (MPI_Status *)statuses;                                  \
    else                                                                                           \
        remember(&of, count, requests_, statuses, (MPI_Status *)statuses == ignored);

EXPORT(Waitall, W count, W requests_, W statuses)
{
    SEVERAL(MPI_STATUSES_IGNORE)
    BEGIN(R3(K_Waitall, count, requests_, of.statuses))
    kept(&record, K_Waitall);
    EACH((int)count, i, &of.statuses[i])
    let_go(&of, statuses);
    return left(code);
}

EXPORT(Testall, W count, W requests_, W flag, W statuses)
{
    SEVERAL(MPI_STATUSES_IGNORE)
    BEGIN(R4(K_Testall, count, requests_, flag, of.statuses))
    polled(&record, K_Testall, !OK || *(int *)flag);
    EACH(*(int *)flag ? (int)count : 0, i, &of.statuses[i])
    let_go(&of, statuses);
    return left(code);
}

EXPORT(Waitany, W count, W requests_, W index, W statuses)
{
    SEVERAL(MPI_STATUS_IGNORE)
    BEGIN(R4(K_Waitany, count, requests_, index, of.statuses))
    kept(&record, K_Waitany);
    EACH(*(int *)index >= 0, *(int *)index, of.statuses)
    let_go(&of, statuses);
    return left(code);
}

EXPORT(Testany, W count, W requests_, W index, W flag, W statuses)
{
    SEVERAL(MPI_STATUS_IGNORE)
    BEGIN(R5(K_Testany, count, requests_, index, flag, of.statuses))
    polled(&record, K_Testany, !OK || *(int *)flag);
    EACH(*(int *)flag && *(int *)index >= 0, *(int *)index, of.statuses)
    let_go(&of, statuses);
    return left(code);
}

#define SOME(name, keep_it)                                                                        \
    EXPORT(name, W count, W requests_, W done, W indices, W statuses)                              \
    {                                                                                              \
        SEVERAL(MPI_STATUSES_IGNORE)                                                               \
        BEGIN(R5(K_##name, count, requests_, done, indices, of.statuses))                          \
        keep_it;                                                                                   \
        EACH(*(int *)done, ((int *)indices)[i], &of.statuses[i])                                   \
        let_go(&of, statuses);                                                                     \
        return left(code);                                                                         \
    }
SOME(Waitsome, kept(&record, K_Waitsome))
SOME(Testsome, polled(&record, K_Testsome, !OK || *(int *)done))

static void start(MPI_Request request, const struct record *within)
{
    struct record posted = {.what = CALL};
    if ((W)request == REQUEST_NONE)
        return;
    pthread_mutex_lock(&requests);
    struct pending *of = *place((W)request);
    if (of && of->is_lasting) {
        of->is_active = 1;
        of->record.post = __atomic_add_fetch(&trace.posts, 1, __ATOMIC_RELAXED);
        posted = of->record;
    }
    pthread_mutex_unlock(&requests);
    if (posted.what == CALL)
        return;
    posted.what = POSTED;
    posted.begin = within->begin;
    posted.end = within->end;
    posted.thread = within->thread;
    keep(&posted);
}

EXPORT(Start, W request)
{
    BEGIN(R1(K_Start, request))
    kept(&record, K_Start);
    if (OK)
        start(*(MPI_Request *)request, &record);
    return left(code);
}

EXPORT(Startall, W count, W requests_)
{
    BEGIN(R2(K_Startall, count, requests_))
    kept(&record, K_Startall);
    for (int i = 0; OK && i < (int)count; i++)
        start(((MPI_Request *)requests_)[i], &record);
    return left(code);
}

EXPORT(Request_free, W request)
{
    MPI_Request before = *(MPI_Request *)request;
    struct pending of;
    BEGIN(R1(K_Request_free, request))
    kept(&record, K_Request_free);
    if (OK && taken((W)before, &of, 1))
        release(of.comm);
    return left(code);
}

/* ---- all together ------------------------------------------------------------------------ */

/* Say which collective this was; the communicator is known. */
static W together(int kind, W code, struct record *record, struct comm *of)
{
    if (OK && of) {
        record->comm = of->index;
        record->turn = ++of->turn;
    }
    kept(record, kind);
    return left(code);
}

static W begun(int kind, W code, struct record *record, struct comm *of, W request)
{
    together(kind, code, record, of);
    record->what = COLLECTED;
    if (OK)
        await((W) * (MPI_Request *)request, of, record, 0);
    return code;
}

#define IN_PLACE(buffer) ((void *)(buffer) == MPI_IN_PLACE)
#define HERE in = known(comm)
#define IS_ROOT (in && in->rank == (int)root)
#define ROOT record.peer = world_rank(in, (int)root)
#define TIMES (in ? (uint64_t)in->size : 0)

EXPORT(Barrier, W comm)
{
    BEGIN(R1(K_Barrier, comm))
    return together(K_Barrier, code, &record, known(comm));
}

EXPORT(Ibarrier, W comm, W request)
{
    BEGIN(R2(K_Ibarrier, comm, request))
    return begun(K_Ibarrier, code, &record, known(comm), request);
}

/* ---- new communicators: all of the old one take part, unless said -------------------------- */

static void made(W code, W comm)
{
    if (OK && (W) * (MPI_Comm *)comm != COMM_NONE)
        known((W) * (MPI_Comm *)comm);
}

#define MAKES(name, parent, made_, R, words, ...)                                                  \
    EXPORT(name, __VA_ARGS__)                                                                      \
    {                                                                                              \
        BEGIN(R words)                                                                             \
        made(code, made_);                                                                         \
        return together(K_##name, code, &record, parent);                                          \
    }
MAKES(Comm_dup, known(a), b, R2, (K_Comm_dup, a, b), W a, W b)
MAKES(Comm_dup_with_info, known(a), c, R3, (K_Comm_dup_with_info, a, b, c), W a, W b, W c)
MAKES(Dist_graph_create, known(a), i, R9, (K_Dist_graph_create, a, b, c, d, e, f, g, h, i), W a,
    W b, W c, W d, W e, W f, W g, W h, W i)
MAKES(Comm_split, known(a), d, R4, (K_Comm_split, a, b, c, d), W a, W b, W c, W d)
MAKES(Comm_split_type, known(a), e, R5, (K_Comm_split_type, a, b, c, d, e), W a, W b, W c, W d, W e)
MAKES(Comm_create, known(a), c, R3, (K_Comm_create, a, b, c), W a, W b, W c)
MAKES(Comm_create_group, NULL, d, R4, (K_Comm_create_group, a, b, c, d), W a, W b, W c, W d)
MAKES(Cart_create, known(a), f, R6, (K_Cart_create, a, b, c, d, e, f), W a, W b, W c, W d, W e, W f)
MAKES(Cart_sub, known(a), c, R3, (K_Cart_sub, a, b, c), W a, W b, W c)
MAKES(Graph_create, known(a), f, R6, (K_Graph_create, a, b, c, d, e, f), W a, W b, W c, W d, W e,
    W f)
MAKES(Dist_graph_create_adjacent, known(a), j, R10,
    (K_Dist_graph_create_adjacent, a, b, c, d, e, f, g, h, i, j), W a, W b, W c, W d, W e, W f, W g,
    W h, W i, W j)
MAKES(Intercomm_create, NULL, f, R6, (K_Intercomm_create, a, b, c, d, e, f), W a, W b, W c, W d,
    W e, W f)
MAKES(Intercomm_merge, NULL, c, R3, (K_Intercomm_merge, a, b, c), W a, W b, W c)

/* ---- files ------------------------------------------------------------------------------- */

EXPORT(File_open, W comm, W name, W mode, W info, W file)
{
    BEGIN(R5(K_File_open, comm, name, mode, info, file))
    return together(K_File_open, code, &record, known(comm));
}

#define FILES(name, R, words, size, ...)                                                           \
    EXPORT(name, __VA_ARGS__)                                                                      \
    {                                                                                              \
        BEGIN(R words)                                                                             \
        size;                                                                                      \
        return together(K_##name, code, &record, NULL);                                            \
    }
FILES(File_close, R1, (K_File_close, a), (void)0, W a)
FILES(File_sync, R1, (K_File_sync, a), (void)0, W a)

/* ---- calls with counts: those of this file's second half, with either of both counts ------- */

#define COUNT int
#define IS_WIDE 0
#define NUMBER(name) K_##name
#define COUNTED(name, ...) EXPORT(name, __VA_ARGS__)
#define COUNTED_FILES(name, ...) FILES(name, __VA_ARGS__)
#include __FILE__
/* A program (mpi4py) may look whether these are there: they must not be where MPI has none. */
#if MPI_VERSION >= 4
#undef COUNT
#undef IS_WIDE
#undef NUMBER
#undef COUNTED
#undef COUNTED_FILES
#define COUNT MPI_Count
#define IS_WIDE 1
#define NUMBER(name) K_##name##_c
#define COUNTED(name, ...) EXPORT(name##_c, __VA_ARGS__)
#define COUNTED_FILES(name, ...) FILES(name##_c, __VA_ARGS__)
#include __FILE__
#endif

#else

#define SEND(name)                                                                                 \
    COUNTED(name, W buffer, W count, W type, W to, W tag, W comm)                                  \
    {                                                                                              \
        BEGIN(R6(NUMBER(name), buffer, count, type, to, tag, comm))                                \
        if (OK) {                                                                                  \
            to_peer(&record, known(comm), to, tag);                                                \
            record.out = bytes((COUNT)count, type);                                                \
        }                                                                                          \
        kept(&record, NUMBER(name));                                                               \
        return left(code);                                                                         \
    }
SEND(Send) SEND(Bsend) SEND(Ssend) SEND(Rsend)

#define ISEND(name, is_lasting)                                                                    \
    COUNTED(name, W buffer, W count, W type, W to, W tag, W comm, W request)                       \
    {                                                                                              \
        BEGIN(R7(NUMBER(name), buffer, count, type, to, tag, comm, request))                       \
        struct record sent = record;                                                               \
        if (OK) {                                                                                  \
            to_peer(&sent, in = known(comm), to, tag);                                             \
            sent.out = bytes((COUNT)count, type);                                                  \
        }                                                                                          \
        kept(is_lasting ? &record : &sent, NUMBER(name));                                          \
        sent.what = SENT;                                                                          \
        sent.kind = NUMBER(name);                                                                  \
        if (OK)                                                                                    \
            await((W) * (MPI_Request *)request, in, &sent, is_lasting);                            \
        return left(code);                                                                         \
    }
ISEND(Isend, 0) ISEND(Ibsend, 0) ISEND(Issend, 0) ISEND(Irsend, 0)
ISEND(Send_init, 1) ISEND(Ssend_init, 1)

#define IRECV(name, is_lasting)                                                                    \
    COUNTED(name, W buffer, W count, W type, W from, W tag, W comm, W request)                     \
    {                                                                                              \
        BEGIN(R7(NUMBER(name), buffer, count, type, from, tag, comm, request))                     \
        struct record posted = record;                                                             \
        if (OK)                                                                                    \
            to_peer(&posted, in = known(comm), from, tag);                                         \
        kept(is_lasting ? &record : &posted, NUMBER(name));                                        \
        posted.what = RECEIVED;                                                                    \
        posted.kind = NUMBER(name);                                                                \
        if (OK)                                                                                    \
            await((W) * (MPI_Request *)request, in, &posted, is_lasting);                          \
        return left(code);                                                                         \
    }
IRECV(Irecv, 0) IRECV(Recv_init, 1)

COUNTED(Recv, W buffer, W count, W type, W from, W tag, W comm, W status)
{
    MPI_Status own, *told = STATUS(own, status);
    BEGIN(R7(NUMBER(Recv), buffer, count, type, from, tag, comm, told))
    if (OK)
        of_status(&record, known(comm), told);
    kept(&record, NUMBER(Recv));
    return left(code);
}

COUNTED(Sendrecv, W out, W count, W type, W to, W tag, W into, W most, W its, W from, W other,
    W comm, W status)
{
    MPI_Status own, *told = STATUS(own, status);
    BEGIN(R12(NUMBER(Sendrecv), out, count, type, to, tag, into, most, its, from, other, comm,
        told))
    record.out = bytes((COUNT)count, type);
    return exchanged(NUMBER(Sendrecv), code, &record, known(comm), to, tag, told);
}

COUNTED(Sendrecv_replace, W buffer, W count, W type, W to, W tag, W from, W other, W comm, W status)
{
    MPI_Status own, *told = STATUS(own, status);
    BEGIN(R9(NUMBER(Sendrecv_replace), buffer, count, type, to, tag, from, other, comm, told))
    record.out = bytes((COUNT)count, type);
    return exchanged(NUMBER(Sendrecv_replace), code, &record, known(comm), to, tag, told);
}

COUNTED(Bcast, W buffer, W count, W type, W root, W comm)
{
    BEGIN(R5(NUMBER(Bcast), buffer, count, type, root, comm))
    HERE, ROOT;
    *(IS_ROOT ? &record.out : &record.in) = bytes((COUNT)count, type);
    return together(NUMBER(Bcast), code, &record, in);
}

COUNTED(Ibcast, W buffer, W count, W type, W root, W comm, W request)
{
    BEGIN(R6(NUMBER(Ibcast), buffer, count, type, root, comm, request))
    HERE, ROOT;
    *(IS_ROOT ? &record.out : &record.in) = bytes((COUNT)count, type);
    return begun(NUMBER(Ibcast), code, &record, in, request);
}

COUNTED(Reduce, W from, W into, W count, W type, W op, W root, W comm)
{
    BEGIN(R7(NUMBER(Reduce), from, into, count, type, op, root, comm))
    HERE, ROOT;
    record.out = bytes((COUNT)count, type);
    return together(NUMBER(Reduce), code, &record, in);
}

COUNTED(Ireduce, W from, W into, W count, W type, W op, W root, W comm, W request)
{
    BEGIN(R8(NUMBER(Ireduce), from, into, count, type, op, root, comm, request))
    HERE, ROOT;
    record.out = bytes((COUNT)count, type);
    return begun(NUMBER(Ireduce), code, &record, in, request);
}

#define REDUCTION(name)                                                                            \
    COUNTED(name, W from, W into, W count, W type, W op, W comm)                                   \
    {                                                                                              \
        BEGIN(R6(NUMBER(name), from, into, count, type, op, comm))                                 \
        record.out = bytes((COUNT)count, type);                                                    \
        return together(NUMBER(name), code, &record, known(comm));                                 \
    }
REDUCTION(Allreduce) REDUCTION(Scan) REDUCTION(Exscan)

COUNTED(Iallreduce, W from, W into, W count, W type, W op, W comm, W request)
{
    BEGIN(R7(NUMBER(Iallreduce), from, into, count, type, op, comm, request))
    record.out = bytes((COUNT)count, type);
    return begun(NUMBER(Iallreduce), code, &record, known(comm), request);
}

COUNTED(Reduce_scatter, W from, W into, W counts, W type, W op, W comm)
{
    BEGIN(R6(NUMBER(Reduce_scatter), from, into, counts, type, op, comm))
    HERE;
    record.out = all_bytes(counts, IS_WIDE, type, in);
    return together(NUMBER(Reduce_scatter), code, &record, in);
}

COUNTED(Reduce_scatter_block, W from, W into, W count, W type, W op, W comm)
{
    BEGIN(R6(NUMBER(Reduce_scatter_block), from, into, count, type, op, comm))
    HERE;
    record.out = bytes((COUNT)count, type) * TIMES;
    return together(NUMBER(Reduce_scatter_block), code, &record, in);
}

COUNTED(Gather, W from, W n, W type, W into, W m, W its, W root, W comm)
{
    BEGIN(R8(NUMBER(Gather), from, n, type, into, m, its, root, comm))
    HERE, ROOT;
    record.out = IN_PLACE(from) ? bytes((COUNT)m, its) : bytes((COUNT)n, type);
    return together(NUMBER(Gather), code, &record, in);
}

COUNTED(Gatherv, W from, W n, W type, W into, W counts, W places, W its, W root, W comm)
{
    BEGIN(R9(NUMBER(Gatherv), from, n, type, into, counts, places, its, root, comm))
    HERE, ROOT;
    record.out = !IN_PLACE(from) ? bytes((COUNT)n, type)
        : IS_ROOT ? bytes(((COUNT *)counts)[in->rank], its) : 0;
    return together(NUMBER(Gatherv), code, &record, in);
}

COUNTED(Scatter, W from, W n, W type, W into, W m, W its, W root, W comm)
{
    BEGIN(R8(NUMBER(Scatter), from, n, type, into, m, its, root, comm))
    HERE, ROOT;
    record.out = IS_ROOT ? bytes((COUNT)n, type) * TIMES : 0;
    record.in = IN_PLACE(into) ? 0 : bytes((COUNT)m, its);
    return together(NUMBER(Scatter), code, &record, in);
}

COUNTED(Scatterv, W from, W counts, W places, W type, W into, W m, W its, W root, W comm)
{
    BEGIN(R9(NUMBER(Scatterv), from, counts, places, type, into, m, its, root, comm))
    HERE, ROOT;
    record.out = IS_ROOT ? all_bytes(counts, IS_WIDE, type, in) : 0;
    record.in = IN_PLACE(into) ? 0 : bytes((COUNT)m, its);
    return together(NUMBER(Scatterv), code, &record, in);
}

COUNTED(Allgather, W from, W n, W type, W into, W m, W its, W comm)
{
    BEGIN(R7(NUMBER(Allgather), from, n, type, into, m, its, comm))
    record.out = IN_PLACE(from) ? bytes((COUNT)m, its) : bytes((COUNT)n, type);
    return together(NUMBER(Allgather), code, &record, known(comm));
}

COUNTED(Iallgather, W from, W n, W type, W into, W m, W its, W comm, W request)
{
    BEGIN(R8(NUMBER(Iallgather), from, n, type, into, m, its, comm, request))
    record.out = IN_PLACE(from) ? bytes((COUNT)m, its) : bytes((COUNT)n, type);
    return begun(NUMBER(Iallgather), code, &record, known(comm), request);
}

COUNTED(Allgatherv, W from, W n, W type, W into, W counts, W places, W its, W comm)
{
    BEGIN(R8(NUMBER(Allgatherv), from, n, type, into, counts, places, its, comm))
    HERE;
    record.out = !IN_PLACE(from) ? bytes((COUNT)n, type)
        : in ? bytes(((COUNT *)counts)[in->rank], its) : 0;
    return together(NUMBER(Allgatherv), code, &record, in);
}

COUNTED(Alltoall, W from, W n, W type, W into, W m, W its, W comm)
{
    BEGIN(R7(NUMBER(Alltoall), from, n, type, into, m, its, comm))
    HERE;
    record.out = (IN_PLACE(from) ? bytes((COUNT)m, its) : bytes((COUNT)n, type)) * TIMES;
    return together(NUMBER(Alltoall), code, &record, in);
}

COUNTED(Ialltoall, W from, W n, W type, W into, W m, W its, W comm, W request)
{
    BEGIN(R8(NUMBER(Ialltoall), from, n, type, into, m, its, comm, request))
    HERE;
    record.out = (IN_PLACE(from) ? bytes((COUNT)m, its) : bytes((COUNT)n, type)) * TIMES;
    return begun(NUMBER(Ialltoall), code, &record, in, request);
}

COUNTED(Alltoallv, W from, W ns, W places, W type, W into, W ms, W others, W its, W comm)
{
    BEGIN(R9(NUMBER(Alltoallv), from, ns, places, type, into, ms, others, its, comm))
    HERE;
    record.out = IN_PLACE(from) ? all_bytes(ms, IS_WIDE, its, in)
        : all_bytes(ns, IS_WIDE, type, in);
    return together(NUMBER(Alltoallv), code, &record, in);
}

#define AT_POINTER(name, to)                                                                       \
    COUNTED_FILES(name, R5, (NUMBER(name), a, b, c, d, e), record.to = bytes((COUNT)c, d), W a,    \
        W b, W c, W d, W e)
#define AT(name, to)                                                                               \
    COUNTED_FILES(name, R6, (NUMBER(name), a, b, c, d, e, f), record.to = bytes((COUNT)d, e), W a, \
        W b, W c, W d, W e, W f)
AT_POINTER(File_read, in) AT_POINTER(File_read_all, in)
AT_POINTER(File_write, out) AT_POINTER(File_write_all, out)
AT(File_read_at, in) AT(File_read_at_all, in) AT(File_write_at, out) AT(File_write_at_all, out)

#endif
