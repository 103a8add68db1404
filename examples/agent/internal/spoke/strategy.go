// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/ignore"
)

// toSend returns the object to apply for a manifest, and the options; nil if nothing must be
// applied.
func (id *identity) toSend(
	ctx context.Context, o *Outcome,
) (*unstructured.Unstructured, appliedwork.ObjectOptions, error) {
	switch o.Strategy() {
	case workv1.UpdateStrategyTypeReadOnly:
		return nil, appliedwork.ObjectOptions{}, nil
	case workv1.UpdateStrategyTypeUpdate: // StrategyUpdate would need the right to update instead of patch
		return o.Object, appliedwork.ObjectOptions{FieldManager: workv1.DefaultFieldManager, Force: true}, nil
	case workv1.UpdateStrategyTypeCreateOnly:
		return o.Object, appliedwork.ObjectOptions{
			FieldManager: workv1.DefaultFieldManager, Strategy: appliedwork.StrategyCreateOnly,
		}, nil
	case workv1.UpdateStrategyTypeServerSideApply:
		return id.serverSideApply(ctx, o)
	}
	return nil, appliedwork.ObjectOptions{}, fmt.Errorf("the update strategy %q is unknown: write Update, "+
		"CreateOnly, ServerSideApply or ReadOnly", o.Strategy())
}

// serverSideApply returns the options of a server-side apply, with the ignored fields.
func (id *identity) serverSideApply(
	ctx context.Context, o *Outcome,
) (*unstructured.Unstructured, appliedwork.ObjectOptions, error) {
	with := appliedwork.ObjectOptions{FieldManager: workv1.DefaultFieldManager}
	config := o.Config.UpdateStrategy.ServerSideApply
	if config == nil {
		return o.Object, with, nil
	}
	with.Force = config.Force
	if config.FieldManager != "" {
		with.FieldManager = config.FieldManager
	}
	if !strings.HasPrefix(with.FieldManager, workv1.DefaultFieldManager) || len(with.FieldManager) > 90 {
		return nil, with, fmt.Errorf("the field manager %.100q is not allowed: it must begin with %s and have at "+
			"most 90 characters", with.FieldManager, workv1.DefaultFieldManager)
	}
	if len(config.IgnoreFields) == 0 {
		return o.Object, with, nil
	}
	if err := checkSecret(o, config.IgnoreFields); err != nil {
		return nil, with, err
	}
	var live *unstructured.Unstructured
	if ignore.NeedsLive(config.IgnoreFields) {
		var err error
		if live, err = id.live(ctx, o); err != nil {
			return nil, with, err
		}
	}
	err := ignore.Find(ctx, o.Object, live, config.IgnoreFields, &with)
	return o.Object, with, err
}

// checkSecret refuses fields of a guarded Secret that are selected by comparing values. Whether such a
// field is found, and how long that takes, would reveal the values to the hub.
func checkSecret(o *Outcome, fields []workv1.IgnoreField) error {
	for _, f := range fields {
		if texts := slices.Concat(f.JSONPaths, f.JQPathExpressions); o.Guarded && len(texts) > 0 {
			return &ignore.Error{Path: texts[0], Err: errors.New(
				"rules must not read Secrets: name the field in jsonPointers, or start the agent with " +
					"--secret-feedback")}
		}
	}
	return nil
}

// live reads an object before it is applied; nil if it does not exist.
func (id *identity) live(ctx context.Context, o *Outcome) (*unstructured.Unstructured, error) {
	if !o.Served {
		return nil, nil // this work defines its kind
	}
	live, err := id.read(ctx, &o.Manifest, o.Resource.Version)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return live, nil
}
