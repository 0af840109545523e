#ifndef DLX_VULKAN_FAULTS_H
#define DLX_VULKAN_FAULTS_H

#define VK_NO_PROTOTYPES
#include <stdint.h>
#include <vulkan/vulkan.h>

enum { FAULTS_NONE = -1, FAULTS_EVERY = -2 };

// faults_loader returns a vkGetInstanceProcAddr in front of the real one.
void *faults_loader(void *real);
int faults_count(void);
const char *faults_name(int index);
void faults_arm(int index, uint64_t skip, uint64_t times, int result);
uint64_t faults_disarm(void); // how often a call failed since faults_arm

// What the driver does with addresses of memory of other devices.
enum { FAULTS_AS_DRIVER, FAULTS_ACCEPT, FAULTS_REFUSE };

// faults_host_import is the handle types that the last import of an address had in each of its calls.
typedef struct faults_host_import {
	uint32_t asked, buffer, imported;
} faults_host_import;

// faults_host returns the function that stands in front of a driver's function, or real.
PFN_vkVoidFunction faults_host(const char *name, PFN_vkVoidFunction real);
void faults_host_rules(int foreign, int refuse_again);
faults_host_import faults_last_host_import(void); // since the last call

#endif
