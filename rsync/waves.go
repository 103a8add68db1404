// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Waves and delete policies are phases of a task. After a crash the phases are repeated from the
// first one, so a hook that was deleted already runs again.

// byWave sorts resources by their waves, lowest first. Within a wave they keep their order.
func byWave(list []appcontext.Resource) []appcontext.Resource {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b appcontext.Resource) int { return cmp.Compare(a.Wave, b.Wave) })
	return sorted
}

// chunk divides a list where the wave changes from one resource to the next of the same hook.
func chunk(list []appcontext.Resource) [][]appcontext.Resource {
	var out [][]appcontext.Resource
	for i := range list {
		if last := i - 1; i > 0 && (list[last].Hook != list[i].Hook || list[last].Wave == list[i].Wave) {
			out[len(out)-1] = append(out[len(out)-1], list[i])
		} else {
			out = append(out, []appcontext.Resource{list[i]})
		}
	}
	return out
}

// wavePhases returns the phases that apply the wanted resources of an app, except hooks. Each wave
// but the last is awaited, including resources that the event does not apply.
func wavePhases(wanted, all []appcontext.Resource) []phase {
	var out []phase
	waves := chunk(byWave(wanted))
	for i, wave := range waves {
		out = append(out, phase{verb: applyVerb, resources: wave})
		if i < len(waves)-1 {
			same := func(r appcontext.Resource) bool { return r.Wave == wave[0].Wave }
			out = append(out, phase{verb: readyVerb, resources: filter(all, same)})
		}
	}
	return out
}

// hookPhases returns the phases that run hooks of one kind. Each wave is awaited, and the hooks are
// deleted by their policies.
func hookPhases(list []appcontext.Resource) []phase {
	var out []phase
	var succeeded []appcontext.Resource
	for _, wave := range chunk(byWave(list)) {
		out = append(out, deletePhases(havingPolicy(wave, appcontext.HookDeletePolicyBeforeCreation))...)
		out = append(out, phase{verb: applyVerb, resources: wave},
			phase{verb: readyVerb, resources: wave, succeeded: slices.Clone(succeeded)})
		succeeded = append(succeeded, havingPolicy(wave, appcontext.HookDeletePolicySucceeded)...)
	}
	slices.Reverse(succeeded)
	return append(out, deletePhases(succeeded)...)
}

func deletePhases(list []appcontext.Resource) []phase {
	if len(list) == 0 {
		return nil
	}
	return []phase{{verb: deleteVerb, resources: list}, {verb: goneVerb, resources: list}}
}

// deleteSteps divides resources, which are in the order of their waves, for deletion.
func deleteSteps(list []appcontext.Resource, order DeleteOrder) [][]appcontext.Resource {
	if order == DeleteOrderReverse {
		slices.Reverse(list)
	}
	return chunk(list)
}

// failure is the error with which a task fails after its cleanup.
type failure struct {
	reason  Reason
	message string
}

// cleanUp makes a task delete the hooks of a failed phase before it fails. It reports whether there
// are such hooks.
func (t *task) cleanUp(res *result) bool {
	if t.failure != nil || res.reason != ReasonHookFailed {
		return false
	}
	list := t.phases[t.at].leftovers(res.states)
	if len(list) == 0 {
		return false
	}
	t.failure = &failure{res.reason, shorten(res.err)}
	t.phases, t.at = deletePhases(list), 0
	return true
}

// leftovers returns the hooks that must be deleted by their policies after a hook of the phase has
// failed. These are failed hooks, and succeeded hooks of this phase and of earlier phases.
func (p *phase) leftovers(states []connector.State) []appcontext.Resource {
	at := map[appcontext.Object]*connector.State{}
	for i := range states {
		at[states[i].Object] = &states[i]
	}
	out := filter(p.resources, func(r appcontext.Resource) bool {
		s := at[r.Object]
		switch {
		case s == nil:
			return false
		case s.Failed:
			return r.Has(appcontext.HookDeletePolicyFailed)
		}
		return s.Ready && r.Has(appcontext.HookDeletePolicySucceeded)
	})
	out = append(slices.Clone(p.succeeded), out...)
	slices.Reverse(out)
	return out
}

func havingPolicy(list []appcontext.Resource, policy appcontext.HookDeletePolicy) []appcontext.Resource {
	return filter(list, func(r appcontext.Resource) bool { return r.Has(policy) })
}

// filter returns the resources to keep, in order.
func filter(list []appcontext.Resource, keep func(appcontext.Resource) bool) []appcontext.Resource {
	var out []appcontext.Resource
	for i := range list {
		if keep(list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}
