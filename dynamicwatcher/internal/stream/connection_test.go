// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import "testing"

func TestStepsOfConnection(t *testing.T) {
	for from, want := range map[connectionPhase]map[connectionStep]connectionPhase{
		disconnected: {dialStarted: dialing, dialDone: connected},
		dialing:      {dialFailed: disconnected, dialDone: connected},
		connected:    {connectionLost: disconnected},
	} {
		for s := dialStarted; s <= connectionLost; s++ {
			to, ok := want[s]
			if !ok {
				to = from
			}
			if got := from.after(s); got != to {
				t.Errorf("step %d of phase %d leads to phase %d, want %d", s, from, got, to)
			}
		}
	}
}
