// memfile.c: memfds in the layouts by which the Vulkan drivers for the CPU export memory.

#include "sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// header is what a memory file tells of itself. In Mesa's layout it begins the file: the first three members are
// Mesa's, in the byte order of the machine, and the rest of the first page is free for others. A file of SwiftShader
// has nothing but the memory, so in its layout our header is in a page behind that.
typedef struct {
    uint64_t size;   // of the file
    uint64_t begin;  // of the data
    uint8_t identity[16];
    uint8_t magic[8];  // ours, where `device` means something
    int32_t device;
} header;

// Mesa's driver imports only what bears its own mark, the first 16 bytes of the SHA-1 of
// its name, which is "llvmpipe" in releases; a build from its repository adds the commit.
static const uint8_t llvmpipe[16] = {
    0x6c, 0xb9, 0xee, 0x07, 0x4a, 0x0b, 0xad, 0x7b, 0x01, 0x2e, 0x1b, 0xe9, 0x69, 0x7e, 0x53, 0x0f,
};
static const uint8_t magic[8] = "dlxvmm" SIM_BRAND;

// Ours are sealed in their size: whoever maps one need not fear that another process cuts it.
enum { seals = F_SEAL_SHRINK | F_SEAL_GROW };

int sim_memory_file_new(size_t size, int device, sim_memory_file *out) {
    bool plain = sim_files_are_plain();
    header h = {.size = SIM_PAGE + size, .begin = plain ? 0 : SIM_PAGE, .device = device};
    memcpy(h.identity, llvmpipe, sizeof h.identity);
    memcpy(h.magic, magic, sizeof h.magic);
    off_t at = plain ? (off_t)size : 0;
    int fd = memfd_create("dlx simulated device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    // Mesa unmaps an import by what stands right before its data: the way back to the header.
    if (ftruncate(fd, (off_t)h.size) != 0 || pwrite(fd, &h, sizeof h, at) != sizeof h ||
        (!plain &&
         pwrite(fd, &h.begin, sizeof h.begin, SIM_PAGE - sizeof h.begin) != sizeof h.begin) ||
        fcntl(fd, F_ADD_SEALS, seals) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    *out = (sim_memory_file){.begin = h.begin, .size = size, .device = device, .ours = true};
    return fd;
}

int sim_dma_buf_new(size_t size, int device, sim_memory_file *out) {
    int fd = memfd_create("dlx simulated dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, seals) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    *out = (sim_memory_file){.size = size, .device = device, .ours = true};
    return fd;
}

// is_swiftshaders reports whether a descriptor is memory that SwiftShader exported. Only the name of the file tells that.
static bool is_swiftshaders(int fd) {
    static const char want[] = "/memfd:SwiftShader.Memory.";
    char link[64], name[sizeof want];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof want - 1);
    return n == sizeof want - 1 && memcmp(name, want, sizeof want - 1) == 0;
}

// has_brand reports whether a header is of a library like this one, of either vendor.
static bool has_brand(const header *h) { return memcmp(h->magic, magic, 6) == 0; }

CUresult sim_memory_file_read(int fd, sim_memory_file *out) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return CUDA_ERROR_INVALID_VALUE;
    // A file is read only when reading cannot block or eat something: no pipe, socket,
    // device. Only files in memory know seals.
    int sealed = S_ISREG(st.st_mode) ? fcntl(fd, F_GET_SEALS) : -1;
    if (sealed < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    uint64_t size = (uint64_t)st.st_size;
    if (is_swiftshaders(fd)) {
        // Whoever shares the device of another driver cannot use it.
        if (!sim_files_are_plain() || size == 0) return CUDA_ERROR_OPERATING_SYSTEM;
        *out = (sim_memory_file){.size = size};
        return CUDA_SUCCESS;
    }
    header h;
    bool behind = (sealed & seals) == seals && size > SIM_PAGE &&
                  pread(fd, &h, sizeof h, (off_t)(size - SIM_PAGE)) == sizeof h && has_brand(&h) &&
                  h.begin == 0;
    if (!behind && pread(fd, &h, sizeof h, 0) != sizeof h) return CUDA_ERROR_OPERATING_SYSTEM;
    if (h.size != size ||
        (!behind && (h.begin < sizeof h || h.begin >= size || h.begin % SIM_PAGE != 0)))
        return CUDA_ERROR_OPERATING_SYSTEM;
    bool ours = memcmp(h.magic, magic, sizeof magic) == 0;
    if (!ours && (has_brand(&h) || sim_files_are_plain()))
        return CUDA_ERROR_OPERATING_SYSTEM;  // of another vendor, or of another driver of Vulkan
    *out = (sim_memory_file){.begin = h.begin,
                             .size = behind ? size - SIM_PAGE : size - h.begin,
                             .device = ours ? h.device : 0,
                             .ours = ours};
    return CUDA_SUCCESS;
}
