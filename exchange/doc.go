// Package exchange moves a tensor to the device that uses it next. It shares memory if the
// two devices can, and copies otherwise. It reports how it moved the tensor, and why no
// better way was possible.
//
// [To] moves a tensor, and [ToAll] many tensors at once. [Plan] only decides how to move
// one: the result is a [Route], which describes the decision in words, and [Route.Run]
// carries it out. There are five mechanisms, the best one first:
//
//   - [Alias]: the tensor is used as it is. Its memory belongs to the device, or it is host
//     memory and the device is the host.
//   - [Map]: the memory is opened for the device, and nothing is copied. Host memory is
//     mapped into the device, device memory is mapped for the host, or memory that was
//     allocated for export is imported. Device memory that is mapped for the host can also be
//     mapped into another device.
//   - [Peer]: one copy between two devices of one backend, without the host.
//   - [Direct]: one copy between device memory and host memory, or between two memories
//     that one device can access.
//   - [Staged]: two copies, through host memory. The tensor is copied in pieces, so that
//     both copies run at the same time.
//
// # Lifetime
//
// The caller still owns the source, and also owns the result. A result that shares memory
// keeps the source's memory alive. Work on either tensor is recorded on both: work that
// reads one of them waits for a write to the other.
//
// Memory that a move has opened on another device stays open, so that the next move of the
// same memory need not open it. It is closed when the original memory is freed, or when the
// device is closed and no tensor uses it. If the device does not implement CloseNotifier of
// package backendkit, it is closed with the last tensor that uses it.
//
// # Conversions
//
// [Options.Convert] makes a conversion part of a move: another element type, a scale and an
// offset for each channel, another order of the axes, and flips. Every byte is read once, and
// the result has the same bits wherever it is made; [core.Scaling] defines them. The place is
//
//   - the device on which the tensor lies already, if it is a [core.Converter] that can;
//   - otherwise the destination, if the source's bytes are not more than the result's, or the
//     source's device, if they are: so that fewer bytes move between devices;
//   - the host, if no device can, or if the device is the processor of the host. From memory
//     of a device it converts in pieces, so that it needs little memory.
//
// If the device that was planned has no memory for the whole tensor, or does not support the conversion after
// all, [core.ConvertScaled] converts: a device in parts, or the host.
//
// The report says where that was, in [Report.Converted] and its steps. [Report.Refused] has
// the reason why a device did not convert.
//
// # Devices
//
// The package imports no backend: it uses devices through their interfaces. It uses an
// optional interface of package core if the device implements it and declares its capability.
package exchange
