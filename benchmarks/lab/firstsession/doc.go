// Command firstsession examines a card on which dlx has not run before. It answers what NVIDIA's documentation leaves
// open, and what a simulated driver cannot answer: which calls block behind an unfinished wait, which memory Vulkan
// imports, what the driver says of pointers, and how long copies and signals take.
//
//	firstsession [-time 540s] [-blocked 1.5s] [-python python3 -script FILE] [-experiment NAME]... OUT.json
//	firstsession -list
//
// Each experiment runs in a process of its own, which is killed after a while: an experiment that hangs or crashes
// loses nothing but what it had not reported yet. OUT.json is written again after each experiment and is complete JSON
// at any time; OUT.json.log has all that the processes print. An experiment that cannot be made is skipped, and has the
// reason. Results of the simulated driver, and of Vulkan devices that are processors, are marked as simulated. They are of
// small sizes, and their times say nothing of a card.
//
// The command makes most calls of CUDA's driver and of Vulkan itself, from C, instead of calling dlx: it examines the
// drivers, not dlx. What dlx makes of a driver is measured with its public API. scripts/gpu-kit.sh packs the command
// for machines with a card; see docs/building.md.
package main
