// uuid.c: the UUID of a device. Device 0 has that of the Vulkan driver for the CPU, where there
// is one whose memory and ours can be shared: UUIDs are how programs tell.

#include "sharing.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// What is needed of Vulkan, in its specification's names and sizes (chapters
// "Initialization" and "Devices and Queues"): its headers need not be there.
enum {
    VK_SUCCESS = 0,
    VK_STRUCTURE_TYPE_APPLICATION_INFO = 0,
    VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO = 1,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES = 1000071004,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES = 1000196000,
    VK_PHYSICAL_DEVICE_TYPE_CPU = 4,
    VK_DRIVER_ID_GOOGLE_SWIFTSHADER = 10,
    VK_DRIVER_ID_MESA_LLVMPIPE = 13,
    VK_API_VERSION_1_2 = 1 << 22 | 2 << 12,  // the first with all structures below
    VK_UUID_SIZE = 16,
    VK_LUID_SIZE = 8,
    VK_MAX_DRIVER_NAME_SIZE = 256,
    VK_MAX_DRIVER_INFO_SIZE = 256,
};

typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;

typedef struct {
    uint32_t sType;
    const void *pNext;
    const char *pApplicationName;
    uint32_t applicationVersion;
    const char *pEngineName;
    uint32_t engineVersion;
    uint32_t apiVersion;
} VkApplicationInfo;

typedef struct {
    uint32_t sType;
    const void *pNext;
    uint32_t flags;
    const VkApplicationInfo *pApplicationInfo;
    uint32_t enabledLayerCount;
    const char *const *ppEnabledLayerNames;
    uint32_t enabledExtensionCount;
    const char *const *ppEnabledExtensionNames;
} VkInstanceCreateInfo;

typedef struct {
    uint32_t sType;
    void *pNext;
    uint8_t deviceUUID[VK_UUID_SIZE];
    uint8_t driverUUID[VK_UUID_SIZE];
    uint8_t deviceLUID[VK_LUID_SIZE];
    uint32_t deviceNodeMask;
    uint32_t deviceLUIDValid;
} VkPhysicalDeviceIDProperties;

typedef struct {
    uint32_t sType;
    void *pNext;
    uint32_t driverID;
    char driverName[VK_MAX_DRIVER_NAME_SIZE];
    char driverInfo[VK_MAX_DRIVER_INFO_SIZE];
    uint8_t conformanceVersion[4];
} VkPhysicalDeviceDriverProperties;

typedef struct {
    uint32_t sType;
    void *pNext;
    uint32_t apiVersion;
    uint32_t driverVersion;
    uint32_t vendorID;
    uint32_t deviceID;
    uint32_t deviceType;
    // The name, the cache's UUID, the limits and the sparse properties: 804 bytes
    // on a machine of 64 bits, which only the driver writes. More does not harm.
    _Alignas(8) unsigned char rest[1024];
} VkPhysicalDeviceProperties2;

typedef void (*function)(void);
typedef function (*get_proc)(VkInstance, const char *);
typedef int (*create_instance)(const VkInstanceCreateInfo *, const void *, VkInstance *);
typedef void (*destroy_instance)(VkInstance, const void *);
typedef int (*enumerate)(VkInstance, uint32_t *, VkPhysicalDevice *);
typedef void (*get_properties)(VkPhysicalDevice, VkPhysicalDeviceProperties2 *);

// more_devices is more than a machine has.
enum { more_devices = 16 };

static unsigned char first_uuid[VK_UUID_SIZE];
static bool plain_files;

// uuid_of_cpu_driver asks every physical device of an instance for a driver whose memory files are known.
static bool uuid_of_cpu_driver(get_proc get, VkInstance instance,
                               unsigned char uuid[VK_UUID_SIZE]) {
    enumerate list = (enumerate)get(instance, "vkEnumeratePhysicalDevices");
    get_properties describe = (get_properties)get(instance, "vkGetPhysicalDeviceProperties2");
    VkPhysicalDevice devices[more_devices];
    uint32_t n = more_devices;
    if (!list || !describe || list(instance, &n, devices) < VK_SUCCESS) return false;
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceDriverProperties driver = {0};
        VkPhysicalDeviceIDProperties id = {.pNext = &driver};
        VkPhysicalDeviceProperties2 p = {.pNext = &id};
        driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
        id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
        p.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
        describe(devices[i], &p);
        bool swiftshader = driver.driverID == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
        if (p.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU ||
            !(swiftshader || driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE))
            continue;
        plain_files = swiftshader;
        memcpy(uuid, id.deviceUUID, VK_UUID_SIZE);
        return true;
    }
    return false;
}

static bool uuid_by_vulkan(unsigned char uuid[VK_UUID_SIZE]) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loader) return false;
    // The loader stays open: a driver of its may have left threads or hooks.
    get_proc get = (get_proc)dlsym(loader, "vkGetInstanceProcAddr");
    create_instance create = get ? (create_instance)get(NULL, "vkCreateInstance") : NULL;
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app};
    VkInstance instance;
    if (!create || create(&info, NULL, &instance) != VK_SUCCESS) return false;
    bool found = uuid_of_cpu_driver(get, instance, uuid);
    destroy_instance destroy = (destroy_instance)get(instance, "vkDestroyInstance");
    if (destroy) destroy(instance, NULL);
    return found;
}

// uuid_by_environment reads 32 hexadecimal digits, with hyphens anywhere or none.
static bool uuid_by_environment(unsigned char uuid[VK_UUID_SIZE]) {
    const char *s = getenv("DLX_GPUSIM_UUID");
    unsigned char parsed[VK_UUID_SIZE] = {0};
    int digits = 0;
    for (; s && *s; s++) {
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        const char *at = strchr(hex, *s);
        if (*s == '-') continue;
        if (!at || digits == 2 * VK_UUID_SIZE) return false;
        parsed[digits / 2] = (unsigned char)(parsed[digits / 2] << 4 | ((at - hex) & 15));
        digits++;
    }
    if (digits != 2 * VK_UUID_SIZE) return false;
    memcpy(uuid, parsed, VK_UUID_SIZE);
    return true;
}

static void find(void) {
    static const unsigned char own[VK_UUID_SIZE] = "dlx simulated 0";
    if (!uuid_by_environment(first_uuid) && !uuid_by_vulkan(first_uuid))
        memcpy(first_uuid, own, VK_UUID_SIZE);
    plain_files = sim_environment("DLX_GPUSIM_PLAIN_FILES", plain_files, 0, 1);
}

static void find_first(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}

bool sim_files_are_plain(void) {
    find_first();
    return plain_files;
}

// uuid_of answers for both versions. Devices other than the first differ from it in
// their last byte, whatever that is.
static CUresult uuid_of(CUuuid *out, CUdevice ordinal) {
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(ordinal) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    find_first();
    memcpy(out->bytes, first_uuid, VK_UUID_SIZE);
    out->bytes[VK_UUID_SIZE - 1] = (char)(first_uuid[VK_UUID_SIZE - 1] ^ ordinal);
    return CUDA_SUCCESS;
}

// "Device Management". A header of CUDA 13 knows the second version only.
#undef cuDeviceGetUuid
SIM_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    ENTER(cuDeviceGetUuid, SIM_INIT);
    return uuid_of(uuid, dev);
}

// "If the device is in MIG mode, returns its MIG UUID", unlike the first version.
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    ENTER(cuDeviceGetUuid_v2, SIM_INIT);
    CUresult r = uuid_of(uuid, dev);
    const char *mig = getenv("DLX_GPUSIM_MIG");
    if (r == CUDA_SUCCESS && mig != NULL && strcmp(mig, "1") == 0) uuid->bytes[0] ^= 0x40;
    return r;
}
