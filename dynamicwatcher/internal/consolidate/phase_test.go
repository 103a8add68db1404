// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consolidate

import "testing"

func TestStepsOfSharedWatch(t *testing.T) {
	phases := []Phase{Apart, Gathering, Trying, Sharing, Interrupted, Leaving}
	steps := []Step{Enough, Waited, Established, Ended, GivenUp, Unfit, Abandoned}
	type move struct {
		from Phase
		step Step
	}
	changes := map[move]Phase{
		{Apart, Enough}:            Gathering,
		{Gathering, Waited}:        Trying,
		{Gathering, Ended}:         Trying,
		{Gathering, GivenUp}:       Trying,
		{Gathering, Established}:   Sharing,
		{Trying, Established}:      Sharing,
		{Sharing, Ended}:           Interrupted,
		{Interrupted, Established}: Sharing,
		{Sharing, Unfit}:           Leaving,
		{Sharing, GivenUp}:         Trying,
		{Interrupted, GivenUp}:     Trying,
		{Leaving, GivenUp}:         Trying,
	}
	for _, from := range phases {
		for _, s := range steps {
			want, ok := changes[move{from, s}]
			switch {
			case s == Abandoned:
				want = Apart
			case !ok:
				want = from
			}
			if got := from.After(s); got != want {
				t.Errorf("step %d of phase %d leads to phase %d, want %d", s, from, got, want)
			}
		}
	}
}
