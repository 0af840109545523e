// memfile.c: memfds in the layout by which Mesa's drivers for the CPU export memory.

#include "sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// header begins a memory file. The first three members are Mesa's, in the byte order of
// the machine; the rest of the first page is free for others.
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

int sim_memory_file_new(size_t size, int device, sim_memory_file *out) {
    header h = {.size = SIM_PAGE + size, .begin = SIM_PAGE, .device = device};
    memcpy(h.identity, llvmpipe, sizeof h.identity);
    memcpy(h.magic, magic, sizeof h.magic);
    int fd = memfd_create("dlx simulated device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    // Sealed in its size: whoever maps it need not fear that another process cuts it.
    // Mesa unmaps an import by what stands right before its data: the way back to the header.
    if (ftruncate(fd, (off_t)h.size) != 0 || pwrite(fd, &h, sizeof h, 0) != sizeof h ||
        pwrite(fd, &h.begin, sizeof h.begin, SIM_PAGE - sizeof h.begin) != sizeof h.begin ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
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
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    *out = (sim_memory_file){.size = size, .device = device, .ours = true};
    return fd;
}

CUresult sim_memory_file_read(int fd, sim_memory_file *out) {
    struct stat st;
    header h;
    if (fd < 0 || fstat(fd, &st) != 0) return CUDA_ERROR_INVALID_VALUE;
    // A file is read only when reading cannot block or eat something: no pipe, socket,
    // device. Only files in memory know seals.
    if (!S_ISREG(st.st_mode) || fcntl(fd, F_GET_SEALS) < 0 ||
        pread(fd, &h, sizeof h, 0) != sizeof h)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (h.size != (uint64_t)st.st_size || h.begin < sizeof h || h.begin >= h.size ||
        h.begin % SIM_PAGE != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    bool ours = memcmp(h.magic, magic, sizeof magic) == 0;
    if (!ours && memcmp(h.magic, magic, 6) == 0) return CUDA_ERROR_OPERATING_SYSTEM;  // of another vendor
    *out = (sim_memory_file){
        .begin = h.begin, .size = h.size - h.begin, .device = ours ? h.device : 0, .ours = ours};
    return CUDA_SUCCESS;
}
