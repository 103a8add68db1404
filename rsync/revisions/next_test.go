// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spokewire/sdk-go/rsync"
)

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		reason string
		states []rsync.State // of the revisions 1, 2, 3
		wanted int
		want   step
	}{
		{"nothing was ever there", nil, 0, step{}},
		{"the first begins", []rsync.State{""}, 1, step{verb: create, number: 1}},
		{"it comes", []rsync.State{rsync.Created}, 1, step{verb: instantiate, number: 1}},
		{"it is there", []rsync.State{rsync.Instantiated}, 1, step{}},
		{"it failed and is tried again", []rsync.State{rsync.InstantiateFailed}, 1, step{verb: instantiate, number: 1}},
		{"the next one is stored first", []rsync.State{rsync.Instantiated, ""}, 2, step{verb: create, number: 2}},
		{"an update", []rsync.State{rsync.Instantiated, rsync.Created}, 2, step{verb: update, number: 2, from: 1}},
		{"an update that failed is tried again", []rsync.State{rsync.Instantiated, rsync.InstantiateFailed}, 2,
			step{verb: update, number: 2, from: 1}},
		{"what is gone is left behind again", []rsync.State{rsync.UpdateFailed, rsync.Instantiated}, 2,
			step{verb: update, number: 2, from: 1}},
		{"an update that failed is led on from", []rsync.State{rsync.Instantiated, rsync.InstantiateFailed, rsync.Created}, 3,
			step{verb: update, number: 3, from: 2}},
		{"and then from the one before", []rsync.State{rsync.Instantiated, rsync.Updated, rsync.Instantiated}, 3,
			step{verb: update, number: 3, from: 1}},
		{"a rollback", []rsync.State{rsync.Updated, rsync.Instantiated}, 1,
			step{verb: update, number: 1, from: 2, rollback: true}},
		{"a rollback of what failed", []rsync.State{rsync.Instantiated, rsync.InstantiateFailed}, 1,
			step{verb: update, number: 1, from: 2, rollback: true}},
		{"the end", []rsync.State{rsync.Updated, rsync.Instantiated}, 0, step{verb: terminate, number: 2}},
		{"the end of all that is there", []rsync.State{rsync.UpdateFailed, rsync.Terminated}, 0,
			step{verb: terminate, number: 1}},
		{"and of what is stored", []rsync.State{rsync.Updated, rsync.Terminated}, 0, step{verb: remove, number: 1}},
		{"all is removed", []rsync.State{"", ""}, 0, step{}},
		{"a termination that failed", []rsync.State{rsync.TerminationFailed}, 0, step{verb: terminate, number: 1}},
		{"it comes back before it was gone", []rsync.State{rsync.TerminationFailed, rsync.Created}, 2,
			step{verb: update, number: 2, from: 1}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var revisions []revisionState
			for i, s := range tt.states {
				revisions = append(revisions, revisionState{i + 1, s})
			}
			if got := next(revisions, tt.wanted); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestOld(t *testing.T) {
	revisions := []revisionState{{1, rsync.UpdateFailed}, {2, rsync.Updated}, {3, rsync.Updated}, {5, rsync.Instantiated},
		{6, rsync.Updated}}
	if got := old(revisions, 5, 2); fmt.Sprint(got) != "[2 3]" {
		t.Errorf("%v", got)
	}
	if got := old(revisions, 2, 3); got != nil {
		t.Errorf("%v", got)
	}
}

// TestNextRemovesOtherObjects checks that the wanted revision is reached and that no other objects stay,
// also after failed and stopped events. The model is a cluster on which a failed event does a part
// of its work, in the states that the engine allows.
func TestNextRemovesOtherObjects(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{r: r, objects: map[string]int{}, content: map[int][]string{}, state: map[int]rsync.State{}}
		for target := 1; target <= 6; target++ {
			for _, o := range []string{"a", "b", "c", "d"} {
				if r.IntN(2) == 0 {
					m.content[target] = append(m.content[target], o)
				}
			}
			wanted := target
			if r.IntN(3) == 0 {
				wanted = r.IntN(target + 1) // a rollback, or a removal
			}
			m.run(t, wanted, r.IntN(4))
		}
		m.run(t, 0, 0)
	}
}

type model struct {
	r       *rand.Rand
	objects map[string]int // objects on the cluster, with the revision that applied them last
	content map[int][]string
	state   map[int]rsync.State
}

// run takes steps to a wanted revision. Some events fail. At the end it checks the objects.
func (m *model) run(t *testing.T, wanted, failures int) {
	t.Helper()
	for range 100 {
		var revisions []revisionState
		for n := 1; n <= 6; n++ {
			if s := m.state[n]; s != "" || n == wanted {
				revisions = append(revisions, revisionState{n, s})
			}
		}
		s := next(revisions, wanted)
		fails := failures > 0 && m.r.IntN(2) == 0
		if fails {
			failures--
		}
		switch s.verb {
		case nothing:
			m.check(t, wanted)
			return
		case create:
			m.state[s.number] = rsync.Created
		case remove:
			delete(m.state, s.number)
		case instantiate:
			m.event(t, rsync.Instantiate, s.number, 0, fails)
		case update:
			m.event(t, rsync.Update, s.number, s.from, fails)
		case terminate:
			m.event(t, rsync.Terminate, s.number, 0, fails)
		}
		if fails && m.r.IntN(2) == 0 {
			return // a newer revision is wanted
		}
	}
	t.Fatalf("%d is not reached: %v", wanted, m.state)
}

func (m *model) event(t *testing.T, e rsync.EventType, number, from int, fails bool) {
	t.Helper()
	row, valid := transitions().Of(e, m.state[number])
	if !valid {
		t.Fatalf("%s cannot begin in %s", e, m.state[number])
	}
	half := func() bool { return !fails || m.r.IntN(2) == 0 }
	switch e {
	case rsync.Terminate:
		for _, o := range m.content[number] {
			if half() {
				delete(m.objects, o)
			}
		}
	case rsync.Update:
		second, valid := transitions().Of(rsync.UpdateDelete, m.state[from])
		if !valid {
			t.Fatalf("no update from %s", m.state[from])
		}
		inFirst := fails && m.r.IntN(2) == 0
		for _, o := range m.content[number] {
			if !inFirst || half() {
				m.objects[o] = number
			}
		}
		if inFirst {
			m.state[number] = row.Error
			return
		}
		for _, o := range m.content[from] {
			if !slices.Contains(m.content[number], o) && half() {
				delete(m.objects, o)
			}
		}
		m.state[from] = second.Desired
		if fails {
			m.state[from] = second.Error
		}
		m.state[number] = row.Desired
		return
	default:
		for _, o := range m.content[number] {
			if half() {
				m.objects[o] = number
			}
		}
	}
	m.state[number] = row.Desired
	if fails {
		m.state[number] = row.Error
	}
}

func (m *model) check(t *testing.T, wanted int) {
	t.Helper()
	for o, n := range m.objects {
		if n != wanted {
			t.Fatalf("%s of revision %d is left, and %d is wanted", o, n, wanted)
		}
	}
	if len(m.objects) != len(m.content[wanted]) {
		t.Fatalf("revision %d has %v, and there is %v", wanted, m.content[wanted], m.objects)
	}
}
