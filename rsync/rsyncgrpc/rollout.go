// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// The actions of ChangeRollout.
const (
	actionApprove = "Approve"
	actionPause   = "Pause"
	actionResume  = "Resume"
	actionAbort   = "Abort"
)

func (s *service) GetRollout(ctx context.Context, r *rsyncv1.GetRolloutRequest) (*rsyncv1.GetRolloutResponse, error) {
	out := &rsyncv1.GetRolloutResponse{}
	return out, s.allowed(ctx, "GetRollout", VerbRead, r.GetRef().GetId(), func() error {
		status, err := s.engine.RolloutStatus(ctx, refOf(r.GetRef()))
		if err == nil {
			out.Rollout = rolloutStatusMessage(status)
		}
		return err
	})
}

func (s *service) ChangeRollout(
	ctx context.Context, r *rsyncv1.ChangeRolloutRequest,
) (*rsyncv1.ChangeRolloutResponse, error) {
	return &rsyncv1.ChangeRolloutResponse{}, s.allowed(ctx, "ChangeRollout", VerbRollout, r.GetRef().GetId(),
		func() error {
			ref := refOf(r.GetRef())
			switch r.GetAction() {
			case actionApprove:
				return s.engine.Approve(ctx, ref, approvalOf(r.GetApproval()))
			case actionPause:
				return s.engine.Pause(ctx, ref)
			case actionResume:
				return s.engine.Resume(ctx, ref)
			case actionAbort:
				return s.engine.Abort(ctx, ref)
			}
			return fmt.Errorf("%w: action %q: must be Approve, Pause, Resume or Abort", rsync.ErrInvalidInput, r.GetAction())
		})
}

// RolloutStatus returns the progress of a rollout: see [rsync.Engine.RolloutStatus].
func (c *Client) RolloutStatus(ctx context.Context, ref rsync.EventRef) (*rsync.RolloutStatus, error) {
	r := &rsyncv1.GetRolloutRequest{Ref: refMessage(&ref)}
	response, err := about(ctx, c, ref.AppContextID, c.engine.GetRollout, r)
	if err != nil {
		return nil, err
	}
	return rolloutStatusOf(response.GetRollout())
}

// Approve opens a gate of a rollout: see [rsync.Engine.Approve].
func (c *Client) Approve(ctx context.Context, ref rsync.EventRef, approval rsync.Approval) error {
	if err := checkText("the group or gate", approval.Group, string(approval.Gate)); err != nil {
		return err
	}
	return c.changeRollout(ctx, &rsyncv1.ChangeRolloutRequest{
		Ref: refMessage(&ref), Action: actionApprove, Approval: approvalMessage(&approval),
	})
}

// Pause pauses a rollout: see [rsync.Engine.Pause].
func (c *Client) Pause(ctx context.Context, ref rsync.EventRef) error {
	return c.changeRollout(ctx, &rsyncv1.ChangeRolloutRequest{Ref: refMessage(&ref), Action: actionPause})
}

// Resume ends a Pause: see [rsync.Engine.Resume].
func (c *Client) Resume(ctx context.Context, ref rsync.EventRef) error {
	return c.changeRollout(ctx, &rsyncv1.ChangeRolloutRequest{Ref: refMessage(&ref), Action: actionResume})
}

// Abort ends a rollout: see [rsync.Engine.Abort].
func (c *Client) Abort(ctx context.Context, ref rsync.EventRef) error {
	return c.changeRollout(ctx, &rsyncv1.ChangeRolloutRequest{Ref: refMessage(&ref), Action: actionAbort})
}

// changeRollout makes a call, which has no further effect if it is repeated.
func (c *Client) changeRollout(ctx context.Context, r *rsyncv1.ChangeRolloutRequest) error {
	_, err := about(ctx, c, r.GetRef().GetId(), c.engine.ChangeRollout, r)
	return err
}

func checkRollout(r *rsync.Rollout) error {
	if r == nil {
		return nil
	}
	texts := []string{string(r.Until), r.MaxConcurrency, r.MaxFailures}
	for _, g := range r.Groups {
		texts = append(texts, g.Name, g.MaxConcurrency, g.MaxFailures)
		for _, c := range g.Clusters {
			texts = append(texts, c.Provider, c.Name)
		}
	}
	return checkText("the rollout's text", texts...)
}
