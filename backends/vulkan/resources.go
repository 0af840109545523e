//go:build vulkan && linux && cgo

package vulkan

import "github.com/dlx-go/dlx/backends/vulkan/internal/driver"

// resources are the Vulkan objects of a queue. A closed queue leaves them to the next one, whose items are
// numbered from the timeline's value on. Other code may still wait for the timeline, so it is destroyed only
// with the device.
type resources struct {
	timeline uint64 // VkSemaphore
	value    uint64 // of timeline, while no queue uses the resources
	pool     uint64 // VkCommandPool
	commands []*command
}

// takeResources returns resources that no queue uses. d.Mu is held.
func (d *device) takeResources() (*resources, error) {
	if n := len(d.spare); n > 0 {
		l := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return l, nil
	}
	l := new(resources)
	var err error
	if l.timeline, err = d.driver.NewTimeline(false); err != nil {
		return nil, err
	}
	if l.pool, err = d.driver.NewCommandPool(); err != nil {
		d.driver.DestroyTimeline(l.timeline)
		return nil, err
	}
	return l, nil
}

// destroy destroys resources without unfinished work.
func (l *resources) destroy(d *driver.Device) {
	for _, c := range l.commands {
		for _, s := range c.sets {
			d.DestroySet(s.pool)
		}
	}
	d.DestroyCommandPool(l.pool)
	d.DestroyTimeline(l.timeline)
}

// command is a command buffer of a queue, with its descriptor sets by pipeline.
type command struct {
	handle uint64
	busy   uint64 // the item that uses it
	sets   map[*driver.Pipeline]set
}

type set struct{ pool, handle uint64 }

// recording is commands that one command buffer has.
type recording interface {
	record(q *queue, i item, c *command) error
}

// submit submits an item of one command buffer. q.Mu is held.
func (q *queue) submit(i item, x recording) error {
	c, err := q.takeCommand()
	if err != nil {
		return err
	}
	if err := x.record(q, i, c); err != nil {
		return err
	}
	s := q.place(i)
	s.Command = c.handle
	if err := q.send(s); err != nil {
		return err
	}
	c.busy = i.Number
	return nil
}

// takeCommand returns a command buffer that is not in use. The caller sets busy. q.Mu is held.
func (q *queue) takeCommand() (*command, error) {
	l := q.resources
	if len(l.commands) > 0 && q.Has(l.commands[0].busy) {
		c := l.commands[0]
		copy(l.commands, l.commands[1:]) // the one used longest ago stands first
		l.commands[len(l.commands)-1] = c
		return c, nil
	}
	handle, err := q.device.driver.NewCommand(l.pool)
	if err != nil {
		return nil, err
	}
	c := &command{handle: handle, sets: make(map[*driver.Pipeline]set)}
	l.commands = append(l.commands, c)
	return c, nil
}

// setFor returns the descriptor set of c for a pipeline.
func (c *command) setFor(d *device, p *driver.Pipeline) (uint64, error) {
	if s, ok := c.sets[p]; ok {
		return s.handle, nil
	}
	pool, handle, err := d.driver.NewSet(p)
	if err == nil {
		c.sets[p] = set{pool, handle}
	}
	return handle, err
}
