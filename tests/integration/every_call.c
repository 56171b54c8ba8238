/* Every call that is traced, by two ranks that check what they get. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, other;
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("rank %d, line %d: not %s\n", rank, __LINE__, #what);                           \
            fflush(stdout);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
        }                                                                                          \
    } while (0)

static void messages(MPI_Comm comm)
{
    int out[4] = {rank, 1, 2, 3}, in[4] = {-1}, flag = 0, index, done, places[2];
    char room[1000];
    MPI_Request two[2];
    MPI_Status told[2];
    if (rank == 0) {
        MPI_Send(out, 4, MPI_INT, 1, 1, comm);
        MPI_Ssend(out, 4, MPI_INT, 1, 2, comm);
        MPI_Buffer_attach(room, sizeof room);
        MPI_Bsend(out, 4, MPI_INT, 1, 3, comm);
        void *was;
        MPI_Buffer_detach(&was, &done);
        MPI_Recv(in, 0, MPI_INT, 1, 9, comm, MPI_STATUS_IGNORE);
        MPI_Rsend(out, 4, MPI_INT, 1, 4, comm);
    } else {
        MPI_Irecv(in, 4, MPI_INT, 0, 4, comm, two);
        MPI_Send(out, 0, MPI_INT, 0, 9, comm);
        int got[4], count;
        MPI_Recv(got, 4, MPI_INT, 0, 1, comm, told);
        MPI_Get_count(told, MPI_INT, &count);
        MUST(count == 4 && got[3] == 3 && told->MPI_SOURCE == 0 && told->MPI_TAG == 1);
        MPI_Probe(MPI_ANY_SOURCE, 2, comm, told);
        MUST(told->MPI_SOURCE == 0);
        MPI_Recv(got, 4, MPI_INT, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE);
        while (!flag) MPI_Iprobe(0, 3, comm, &flag, MPI_STATUS_IGNORE);
        MPI_Recv(got, 4, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        MPI_Wait(two, MPI_STATUS_IGNORE);
        MUST(in[0] == 0);
    }
    MPI_Sendrecv(out, 4, MPI_INT, other, 5, in, 4, MPI_INT, other, 5, comm, told);
    MUST(in[0] == other && told->MPI_SOURCE == other);
    in[0] = rank;
    MPI_Sendrecv_replace(in, 4, MPI_INT, other, 6, other, 6, comm, MPI_STATUS_IGNORE);
    MUST(in[0] == other);
#define BOTH(send, how)                                                                            \
    in[0] = -1;                                                                                    \
    MPI_Irecv(in, 4, MPI_INT, MPI_ANY_SOURCE, 7, comm, two);                                       \
    send(out, 4, MPI_INT, other, 7, comm, two + 1);                                                \
    how;                                                                                           \
    MUST(in[0] == other)
    BOTH(MPI_Isend, MPI_Waitall(2, two, told));
    MUST(told[0].MPI_SOURCE == other);
    BOTH(MPI_Issend, for (int i = 0; i < 2; i++) MPI_Waitany(2, two, &index, MPI_STATUS_IGNORE));
    BOTH(MPI_Isend, for (int n = 0; n < 2; n += done)
             MPI_Waitsome(2, two, &done, places, MPI_STATUSES_IGNORE));
    BOTH(MPI_Isend, for (flag = 0; !flag;) MPI_Testall(2, two, &flag, MPI_STATUSES_IGNORE));
    BOTH(MPI_Isend, for (int n = 0; n < 2;) {
        MPI_Testany(2, two, &index, &flag, MPI_STATUS_IGNORE);
        n += flag && index >= 0;
    });
    BOTH(MPI_Isend, for (int n = 0; n < 2;) {
        MPI_Testsome(2, two, &done, places, MPI_STATUSES_IGNORE);
        n += done;
    });
    BOTH(MPI_Isend, for (flag = 0; !flag;) MPI_Test(two, &flag, MPI_STATUS_IGNORE);
         MPI_Wait(two + 1, MPI_STATUS_IGNORE));
    MPI_Send_init(out, 4, MPI_INT, other, 8, comm, two);
    MPI_Recv_init(in, 4, MPI_INT, other, 8, comm, two + 1);
    for (int turn = 0; turn < 3; turn++) {
        in[0] = -1;
        MPI_Startall(2, two);
        MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
        MUST(in[0] == other);
    }
    MPI_Start(two);
    MPI_Start(two + 1);
    MPI_Wait(two, told);
    MPI_Wait(two + 1, told);
    MPI_Request_free(two);
    MPI_Request_free(two + 1);
    MPI_Send(out, 1, MPI_INT, MPI_PROC_NULL, 0, comm);
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE);
}

static void collectives(MPI_Comm comm)
{
    int mine[2] = {rank + 1, rank + 1}, all[4] = {0}, sum[2];
    int counts[2] = {1, 1}, places[2] = {0, 1};
    MPI_Request request;
    MPI_Barrier(comm);
    sum[0] = rank;
    MPI_Bcast(sum, 1, MPI_INT, 1, comm);
    MUST(sum[0] == 1);
    MPI_Reduce(mine, sum, 2, MPI_INT, MPI_SUM, 1, comm);
    MUST(rank == 0 || sum[1] == 3);
    MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, comm);
    MUST(sum[0] == 3);
    sum[0] = rank;
    MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INT, MPI_MAX, comm);
    MUST(sum[0] == 1);
    MPI_Reduce_scatter(mine, sum, counts, MPI_INT, MPI_SUM, comm);
    MUST(sum[0] == 3);
    MPI_Reduce_scatter_block(mine, sum, 1, MPI_INT, MPI_SUM, comm);
    MUST(sum[0] == 3);
    MPI_Scan(mine, sum, 1, MPI_INT, MPI_SUM, comm);
    MUST(sum[0] == (rank ? 3 : 1));
    MPI_Exscan(mine, sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Gather(mine, 1, MPI_INT, all, 1, rank ? MPI_DATATYPE_NULL : MPI_INT, 0, comm);
    MUST(rank || (all[0] == 1 && all[1] == 2));
    MPI_Gatherv(rank ? (void *)mine : MPI_IN_PLACE, 1, MPI_INT, all, counts, places, MPI_INT, 0,
        comm);
    MPI_Scatter(all, 1, rank ? MPI_DATATYPE_NULL : MPI_INT, sum, 1, MPI_INT, 0, comm);
    MUST(sum[0] == rank + 1);
    MPI_Scatterv(all, counts, places, MPI_INT, rank ? (void *)sum : MPI_IN_PLACE, 1, MPI_INT, 0,
        comm);
    MPI_Allgather(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    MUST(all[1] == 2);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_INT, comm);
    MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    MUST(all[1] == 2);
    MPI_Alltoallv(mine, counts, places, MPI_INT, all, counts, places, MPI_INT, comm);
    MPI_Ibarrier(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibcast(sum, 1, MPI_INT, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(mine, sum, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MUST(sum[0] == 3);
    MPI_Ireduce(mine, sum, 1, MPI_INT, MPI_SUM, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallgather(mine, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ialltoall(mine, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void communicators(void)
{
    MPI_Comm dup, half, none, node, line, grid, inter, merged, some;
    MPI_Group group;
    int size[1] = {2}, degree[1] = {1}, wraps[1] = {0}, keep[1] = {1};
    int ends[2] = {1, 2}, edges[2] = {1, 0}, value = 7;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    messages(dup);
    collectives(dup);
    MPI_Comm_free(&dup);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half);
    MPI_Comm_split(MPI_COMM_WORLD, rank ? MPI_UNDEFINED : 0, 0, &none);
    MUST((none == MPI_COMM_NULL) == (rank == 1));
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    messages(node);
    MPI_Cart_create(MPI_COMM_WORLD, 1, size, wraps, 0, &line);
    MPI_Cart_sub(line, keep, &grid);
    collectives(grid);
    MPI_Graph_create(MPI_COMM_WORLD, 2, ends, edges, 0, &dup);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other,
        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &some);
    collectives(some);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &some);
    messages(some);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, degree, &other, MPI_UNWEIGHTED,
        MPI_INFO_NULL, 0, &none);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &some);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &some);
    messages(some);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 6, &inter);
    if (rank) MPI_Send(&value, 1, MPI_INT, 0, 1, inter);
    else MPI_Recv(&value, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
    MUST(value == 7);
    MPI_Barrier(inter);
    MPI_Intercomm_merge(inter, rank, &merged);
    collectives(merged);
}

static void files(void)
{
    MPI_File file;
    int value = rank, got = -1;
    MPI_File_open(MPI_COMM_WORLD, "every.bin", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
        &file);
    MPI_File_write_at(file, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at_all(file, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 4 * other, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
    MUST(got == other);
    MPI_File_read_at_all(file, 4 * other, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read(file, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_all(file, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

int main(int n, char **words)
{
    int had;
    MPI_Init_thread(&n, &words, MPI_THREAD_MULTIPLE, &had);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    messages(MPI_COMM_WORLD);
    collectives(MPI_COMM_WORLD);
    communicators();
    files();
    MPI_Finalize();
    printf("all good\n");
    return 0;
}
