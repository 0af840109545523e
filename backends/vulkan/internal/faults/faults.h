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

#endif
