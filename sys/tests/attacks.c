/* What a hostile task may try, one attack per name: exits 0 if it succeeded, 1 (and says why) if it was refused, 2 if it was called wrongly.
 *
 *     attacks NAME [ARGUMENT]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <grp.h>
#include <mqueue.h>
#include <unistd.h>

static const char *argument = "";

static int is_done(long result) { return result >= 0; }

static pid_t target(void) { return (pid_t)atoi(argument); }

/* An abstract name begins with @. */
static socklen_t address(struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strncpy(to->sun_path, argument, sizeof to->sun_path - 1);
    size_t length = strlen(argument);
    if (argument[0] == '@') to->sun_path[0] = 0;
    else length++;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static int unix_stream(void) {
    struct sockaddr_un to;
    socklen_t length = address(&to);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && is_done(connect(fd, (struct sockaddr *)&to, length));
}

/* The family with other bits set, which the kernel does not look at. */
static int unix_high_bits(void) {
    return is_done(syscall(SYS_socket, 0xdead00000001ul, SOCK_STREAM, 0));
}

static int unix_datagram_pair(void) {
    struct sockaddr_un to;
    socklen_t length = address(&to);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) < 0) return 0;
    return is_done(sendto(fds[0], "x", 1, 0, (struct sockaddr *)&to, length));
}

static int unix_raw_pair(void) {
    int fds[2];
    return is_done(socketpair(AF_UNIX, SOCK_RAW, 0, fds));
}

/* A pair that is connected already cannot be connected to something else, whatever was shut down. */
static int unix_stream_pair(void) {
    struct sockaddr_un to;
    socklen_t length = address(&to);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) return 0;
    close(fds[1]);
    shutdown(fds[0], SHUT_RDWR);
    return is_done(connect(fds[0], (struct sockaddr *)&to, length)) ||
           is_done(sendto(fds[0], "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, length));
}

static int vsock(void) { return is_done(socket(40, SOCK_STREAM, 0)); }
static int alg(void) { return is_done(socket(38, SOCK_SEQPACKET, 0)); }
static int netlink_other(void) { return is_done(socket(AF_NETLINK, SOCK_RAW, 15)); }

/* Types into a terminal, given as a path, or else the controlling one. */
static int typing(unsigned long request) {
    int fd = open(argument[0] ? argument : "/dev/tty", O_RDWR | O_NOCTTY);
    if (fd < 0) return 0;
    return is_done(syscall(SYS_ioctl, fd, request, "x"));
}
static int types(void) { return typing(TIOCSTI); }
static int types_high_bits(void) { return typing(0xffffffff00000000ul | TIOCSTI); }
static int controls_terminal(void) { return is_done(open("/dev/tty", O_RDWR)); }
static int console_selection(void) {
    char what = 10;
    errno = 0;
    /* Not a console: the kernel that gets the call says ENOTTY. */
    return is_done(syscall(SYS_ioctl, 0, 0x541c, &what)) || errno == ENOTTY || errno == EINVAL;
}

static int shared_memory(void) {
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    if (id >= 0) shmctl(id, IPC_RMID, NULL);
    return is_done(id);
}
static int semaphores(void) {
    int id = semget(IPC_PRIVATE, 1, 0600);
    if (id >= 0) semctl(id, 0, IPC_RMID);
    return is_done(id);
}
static int messages(void) {
    int id = msgget(IPC_PRIVATE, 0600);
    if (id >= 0) msgctl(id, IPC_RMID, NULL);
    return is_done(id);
}
static int message_queue(void) {
    mqd_t queue = mq_open("/hanno-test-attack", O_CREAT | O_RDWR, 0600, NULL);
    if (queue >= 0) mq_unlink("/hanno-test-attack");
    return is_done(queue);
}
static int memory_left_behind(void) {
    return is_done(open(argument, O_CREAT | O_RDWR, 0600));
}
static int secret_memory(void) { return is_done(syscall(447, 0)); }
static int locked_memory(void) {
    size_t length = 64ul << 20;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED && is_done(mlock(memory, length));
}
static int watches(void) { return is_done(inotify_init1(0)); }
static int fault_handler(void) { return is_done(syscall(SYS_userfaultfd, 1)); }
static int ring(void) {
    char parameters[120] = {0};
    return is_done(syscall(425, 2, parameters));
}
static int key(void) { return is_done(syscall(SYS_keyctl, 0, -3, 0, 0, 0)); }
static int kernel_program(void) {
    char attributes[128] = {0};
    errno = 0;
    return is_done(syscall(SYS_bpf, 0, attributes, sizeof attributes)) || errno == EINVAL;
}
static int performance(void) {
    uint32_t attributes[32] = {1, 128};
    return is_done(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
}

static int in_a_namespace(void *nothing) { (void)nothing; return 0; }
static int namespace_by_unshare(void) { return is_done(unshare(CLONE_NEWUSER)); }
static int namespace_by_clone(void) {
    static char stack[65536];
    return is_done(clone(in_a_namespace, stack + sizeof stack, CLONE_NEWUSER | SIGCHLD, NULL));
}
static int namespace_by_clone3(void) {
    uint64_t arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long child = syscall(435, arguments, 64);
    if (child == 0) _exit(0);
    return is_done(child);
}
static int other_numbering(void) { return is_done(syscall(0x40000000 | 39)); }

static int signals(void) { return is_done(kill(target(), 0)); }
static int signals_by_descriptor(void) {
    int fd = (int)syscall(434, target(), 0);
    return fd >= 0 && is_done(syscall(424, fd, 0, NULL, 0));
}
static int signals_by_ownership(void) {
    int fds[2];
    if (pipe(fds) < 0) return 0;
    return is_done(kill(-1, 0)) && is_done(kill(target(), 0));
}
static int traces(void) { return is_done(ptrace(PTRACE_SEIZE, target(), 0, 0)); }
static int reads_memory(void) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)&argument, 1};
    errno = 0;
    /* There is nothing at that address of the other: EFAULT, if the kernel looked. */
    return is_done(process_vm_readv(target(), &here, 1, &there, 1, 0)) || errno == EFAULT;
}
static int takes_descriptor(void) {
    int fd = (int)syscall(434, target(), 0);
    return fd >= 0 && is_done(syscall(438, fd, 0, 0));
}
static int opens_of(const char *what) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)target(), what);
    return is_done(open(path, O_RDONLY));
}
static int opens_root(void) { return opens_of("root/"); }
static int opens_directory(void) { return opens_of("cwd/"); }
static int opens_descriptor(void) { return opens_of("fd/0"); }
static int opens_memory(void) { return opens_of("mem"); }
static int opens_environment(void) { return opens_of("environ"); }
static int limits_others(void) {
    struct rlimit limit;
    if (prlimit(target(), RLIMIT_NOFILE, NULL, &limit) < 0) return 0;
    return is_done(prlimit(target(), RLIMIT_NOFILE, &limit, NULL));
}
static int slows_user(void) {
    errno = 0;
    /* Where one process of the user is nicer than another, the kernel that gets the call says EACCES; the walls say EPERM. */
    return is_done(setpriority(PRIO_USER, getuid(), getpriority(PRIO_USER, getuid()))) || errno == EACCES;
}
static int hides(void) { return is_done(prctl(PR_SET_DUMPABLE, 0)); }
static int reads_file(void) { return is_done(open(argument, O_RDONLY)); }
static int writes_file(void) {
    int fd = open(argument, O_WRONLY | O_CREAT, 0600);
    return fd >= 0 && is_done((int)write(fd, "x", 1));
}
static int becomes_root(void) {
    /* Root that is root no more in anything but its number gains nothing by this. */
    return is_done(setuid(0)) && is_done(setgroups(0, NULL));
}
static int becomes_other(void) { return is_done(setuid(12345)); }
static int gives_away(void) {
    int fd = open(argument, O_WRONLY | O_CREAT, 0600);
    return fd >= 0 && is_done(fchown(fd, 12345, 12345));
}
static int makes_device(void) { return is_done(mknod(argument, S_IFBLK | 0600, 0x800)); }
static int inherits(void) { return is_done(fcntl(atoi(argument), F_GETFD)); }
static int dumps_core(void) {
    struct rlimit limit = {4096, 4096};
    return is_done(setrlimit(RLIMIT_CORE, &limit));
}

static const struct { const char *name; int (*attack)(void); } ATTACKS[] = {
#define ATTACK(name) {#name, name}
    ATTACK(unix_stream), ATTACK(unix_high_bits), ATTACK(unix_datagram_pair), ATTACK(unix_raw_pair),
    ATTACK(unix_stream_pair), ATTACK(vsock), ATTACK(alg), ATTACK(netlink_other), ATTACK(types),
    ATTACK(types_high_bits), ATTACK(controls_terminal), ATTACK(console_selection), ATTACK(shared_memory),
    ATTACK(semaphores), ATTACK(messages), ATTACK(message_queue), ATTACK(memory_left_behind), ATTACK(secret_memory),
    ATTACK(locked_memory), ATTACK(watches), ATTACK(fault_handler), ATTACK(ring), ATTACK(key), ATTACK(kernel_program),
    ATTACK(performance), ATTACK(namespace_by_unshare), ATTACK(namespace_by_clone), ATTACK(namespace_by_clone3),
    ATTACK(other_numbering), ATTACK(signals), ATTACK(signals_by_descriptor), ATTACK(signals_by_ownership),
    ATTACK(traces), ATTACK(reads_memory), ATTACK(takes_descriptor), ATTACK(opens_root), ATTACK(opens_directory),
    ATTACK(opens_descriptor), ATTACK(opens_memory), ATTACK(opens_environment), ATTACK(limits_others),
    ATTACK(slows_user), ATTACK(hides), ATTACK(reads_file), ATTACK(writes_file), ATTACK(becomes_root),
    ATTACK(becomes_other), ATTACK(gives_away), ATTACK(makes_device), ATTACK(inherits), ATTACK(dumps_core),
};

int main(int count, char **words) {
    if (count > 2) argument = words[2];
    for (size_t at = 0; count > 1 && at < sizeof ATTACKS / sizeof *ATTACKS; at++) {
        if (strcmp(ATTACKS[at].name, words[1]) != 0) continue;
        if (ATTACKS[at].attack()) {
            puts("SUCCEEDED");
            return 0;
        }
        printf("refused: %s\n", strerror(errno));
        return 1;
    }
    fprintf(stderr, "no such attack\n");
    return 2;
}
