// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

type pruneMode int

const (
	modePrune    pruneMode = iota // delete the objects that the work has dropped
	modePlan                      // find out what modePrune would do, and change nothing
	modeTeardown                  // delete all objects, because the AppliedWork is deleted next
	modeRelease                   // keep all objects, and delete the AppliedWork next
)

// isLast reports whether the AppliedWork is deleted after the run, and late objects with it.
func (m pruneMode) isLast() bool { return m == modeTeardown || m == modeRelease }

// pruneRun is one call of Prune, or one pass of Teardown or Release.
type pruneRun struct {
	*Pruner
	work      *v1alpha1.AppliedWork
	opts      PruneOptions
	mode      pruneMode
	inventory *inventory
	claims    *claims
	unknown   int            // number of manifests that cannot be identified
	used      map[string]Key // namespaces of desired objects, each with one object
	usedKinds map[schema.GroupKind]Key
	keptUIDs  map[types.UID]bool // of desired objects, which may be served as another kind too
	items     []*pruneItem

	contentMu sync.Mutex // locked during discovery: all Namespaces of a wave need the same answer
	content   *contentKinds
}

// pruneItem is one entry that is not desired.
type pruneItem struct {
	entry   v1alpha1.AppliedResourceMeta
	mapping discovery.Mapping
	live    *unstructured.Unstructured
	change  Change
	left    bool // it stays: by a policy, or because our reference was removed
}

func (i *pruneItem) finish(action Action, err error) { i.change.Action, i.change.Err = action, err }

func (i *pruneItem) isFinished() bool { return i.change.Action != "" }

// isSettled reports whether the entry of the object is not needed any more.
func (i *pruneItem) isSettled() bool {
	action := i.change.Action
	return action == ActionDeleted || action == ActionReleased || action == ActionRetained
}
