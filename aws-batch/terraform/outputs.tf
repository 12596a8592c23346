output "repository" {
  description = "Where make deploy pushes to."
  value       = aws_ecr_repository.images.repository_url
}

output "queues" {
  description = "The job queues, by kind of machine."
  value       = { for kind, queue in aws_batch_job_queue.jobs : kind => queue.name }
}

output "definitions" {
  description = "The job definitions, with their revision, by kind of machine."
  value       = { for kind, one in aws_batch_job_definition.jobs : kind => "${one.name}:${one.revision}" }
}

output "log_group" {
  description = "The log group of all jobs."
  value       = aws_cloudwatch_log_group.jobs.name
}

output "job_role" {
  description = "The role that the containers have."
  value       = aws_iam_role.job.arn
}

output "daily" {
  description = "The schedule of the daily run, if there is one."
  value       = one(aws_scheduler_schedule.daily[*].name)
}
