// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// chaos has the works that a hub must have: the values of their ConfigMaps, 0 for a deleted work.
type chaos struct {
	*Steps
	random          *rand.Rand
	values          map[string]int
	last            int // value
	faults          map[string]int
	stalled, frozen bool // the link, and the agent
}

// Chaos writes works at random, while links are cut and stall, the agent is killed and frozen, and the
// server is killed during writes. In the end every work is applied and reported, no deleted work has an
// object, and no object is left without a work.
func (s Steps) Chaos(t *testing.T, writes int) {
	t.Helper()
	s.t = t
	s.agent = s.Start()
	defer func() { s.agent.Kill() }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &chaos{Steps: &s, random: rand.New(rand.NewPCG(seed, 0)), values: map[string]int{}, faults: map[string]int{}}
	for range writes {
		c.fault()
		c.write()
	}
	c.recover()
	s.settle()
	t.Logf("%d writes, %v", c.last, c.faults)
	for name, value := range c.values {
		if value > 0 {
			s.applied(value, name)
			s.delete(name)
		}
	}
	for name := range c.values {
		s.gone(name)
	}
	s.empty()
}

// fault may begin or end a fault.
func (c *chaos) fault() {
	c.t.Helper()
	if (c.stalled || c.frozen) && c.random.IntN(3) == 0 {
		c.recover()
	}
	switch fault := c.random.IntN(60); {
	case fault < 2:
		c.faults["kills of the agent"]++
		c.agent.Kill()
		c.write()
		c.write()
		c.agent, c.frozen = c.Start(), false
	case fault < 4:
		c.faults["kills of the server"]++
		c.recover()
		c.duringRestart(func() {
			c.write()
			c.write()
		})
	case fault < 7:
		c.faults["cuts"]++
		c.Server.Link.Cut()
	case fault < 9:
		c.faults["stalls"]++
		c.Server.Link.Stall()
		c.stalled = true
	case fault < 11:
		c.faults["frozen agents"]++
		c.agent.Freeze()
		c.frozen = true
	}
}

// recover ends a stall and thaws the agent.
func (c *chaos) recover() {
	c.Server.Link.Resume()
	c.agent.Thaw()
	c.stalled, c.frozen = false, false
}

// write creates, updates or deletes one work.
func (c *chaos) write() {
	c.t.Helper()
	name := fmt.Sprint("w", c.random.IntN(10))
	c.last++
	switch {
	case c.values[name] == 0 && c.exists(name): // the agent has not reported the end of its deletion yet
	case c.values[name] == 0:
		c.createWith(name, c.last)
		c.values[name] = c.last
	case c.random.IntN(4) == 0:
		c.delete(name)
		c.values[name] = 0
	default:
		c.update(c.last, name)
		c.values[name] = c.last
	}
}

func (c *chaos) exists(name string) (exists bool) {
	c.t.Helper()
	e2etest.Eventually(c.t, "read "+name, func() error {
		_, err := c.Works.Get(c.t.Context(), name, metav1.GetOptions{})
		exists = err == nil
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return exists
}
